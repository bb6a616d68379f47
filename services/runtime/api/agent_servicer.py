"""AgentService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from collections.abc import Mapping

from signalbox.v1 import agents_pb2, agents_pb2_grpc

from services.runtime.agents.agent import Agent
from services.runtime.api.callers import Callers, Context
from services.runtime.api.policy_wire import policy_proto


class AgentServicer(agents_pb2_grpc.AgentServiceServicer):
    """Says which agents there are."""

    def __init__(self, callers: Callers, agents: Mapping[str, Agent]) -> None:
        self._callers = callers
        self._agents = agents

    async def ListAgents(
        self, request: agents_pb2.ListAgentsRequest, context: Context
    ) -> agents_pb2.ListAgentsResponse:
        """Lists the agents of this replica."""
        del request  # it asks for all
        self._callers.caller(context)
        return agents_pb2.ListAgentsResponse(agents=[_agent(self._agents[name]) for name in sorted(self._agents)])


def _agent(agent: Agent) -> agents_pb2.Agent:
    definition, graph = agent.definition, agent.outline
    return agents_pb2.Agent(
        name=definition.name,
        description=definition.description,
        input_type=definition.input.DESCRIPTOR.full_name,
        output_type=definition.output.DESCRIPTOR.full_name,
        graph_version=graph.version,
        routers=[router.name for router in graph.routers],
        tools=sorted(graph.tools),
        policy=policy_proto(agent.limits),
    )
