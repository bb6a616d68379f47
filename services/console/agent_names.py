"""The agents that there are, for pages to choose from."""

from __future__ import annotations

from collections.abc import Sequence

from signalbox.v1 import agents_pb2

from services.console.gateway import Gateway


async def list_agents(gateway: Gateway) -> Sequence[agents_pb2.Agent]:
    """Returns the agents, by name. Raises ConsoleError."""
    return (await gateway.call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())).agents


async def agent_names(gateway: Gateway) -> Sequence[str]:
    """Returns the agents' names. Raises ConsoleError."""
    return [agent.name for agent in await list_agents(gateway)]
