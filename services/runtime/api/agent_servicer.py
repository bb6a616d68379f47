"""AgentService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import struct_pb2
from signalbox.v1 import agents_pb2, agents_pb2_grpc

from services.runtime.agents.offered import Offered
from services.runtime.api.callers import Callers, Context
from services.runtime.api.policy_wire import policy_proto
from services.runtime.api.wire import struct_proto
from services.runtime.hosted.definition import HostedDefinition


class AgentServicer(agents_pb2_grpc.AgentServiceServicer):
    """Says which agents there are."""

    def __init__(self, callers: Callers, agents: Mapping[str, Offered]) -> None:
        self._callers = callers
        self._agents = agents

    async def ListAgents(
        self, request: agents_pb2.ListAgentsRequest, context: Context
    ) -> agents_pb2.ListAgentsResponse:
        """Lists the agents of this replica."""
        del request  # it asks for all
        self._callers.caller(context)
        return agents_pb2.ListAgentsResponse(agents=[_agent(self._agents[name]) for name in sorted(self._agents)])


def _agent(agent: Offered) -> agents_pb2.Agent:
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
        **_schemas(agent),
    )


def _schemas(agent: Offered) -> dict[str, struct_pb2.Struct]:
    """Returns the schemas of a hosted graph, by the name of their field."""
    if not isinstance(agent.definition, HostedDefinition):
        return {}
    schemas = agent.definition.schemas
    found = {"input_schema": schemas.input, "context_schema": schemas.context, "output_schema": schemas.output}
    return {name: struct_proto(schema) for name, schema in found.items() if schema is not None}
