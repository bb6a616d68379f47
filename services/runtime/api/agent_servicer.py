"""AgentService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from signalbox.v1 import agents_pb2, agents_pb2_grpc

from services.runtime.api.agent_directory import AgentDirectory
from services.runtime.api.callers import Callers, Context


class AgentServicer(agents_pb2_grpc.AgentServiceServicer):
    """Says which agents there are."""

    def __init__(self, callers: Callers, directory: AgentDirectory) -> None:
        self._callers = callers
        self._directory = directory

    async def ListAgents(
        self, request: agents_pb2.ListAgentsRequest, context: Context
    ) -> agents_pb2.ListAgentsResponse:
        """Lists the agents of this replica, and the hosted graphs of other pools."""
        self._callers.caller(context)
        return agents_pb2.ListAgentsResponse(agents=await self._directory.listed(request.name))
