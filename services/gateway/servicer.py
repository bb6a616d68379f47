"""The methods of RunService that take more than forwarding: runs are created once, and streams outlive replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

from opentelemetry import context
from signalbox.v1 import runs_pb2

from services.gateway.entrance import Entrance, ServicerContext
from services.gateway.forwarding import EventResponse, RunForwarder
from services.gateway.redaction import Redaction
from services.kit.telemetry.names import CORRELATION_ID
from services.kit.telemetry.tracing import carrying


class RunServicer:
    """CreateRun, ExecuteRun and WatchRun; requests come in their wire form."""

    def __init__(self, entrance: Entrance, forwarder: RunForwarder, redaction: Redaction) -> None:
        self._entrance = entrance
        self._forwarder = forwarder
        self._redaction = redaction

    async def CreateRun(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.CreateRunResponse:
        """Creates a run and returns at once."""
        caller, request = await self._entrance.accept(runs_pb2.CreateRunRequest, wire, servicer_context)
        _correlate(request)
        async with self._entrance.passing_errors(servicer_context):
            return await self._forwarder.create(request, caller)

    async def ExecuteRun(self, wire: bytes, servicer_context: ServicerContext) -> AsyncIterator[EventResponse]:
        """Creates a run and streams its events until it ends."""
        caller, request = await self._entrance.accept(runs_pb2.ExecuteRunRequest, wire, servicer_context)
        _correlate(request.create)
        self._leave_out_chunks(request)
        responses = self._forwarder.execute(request, caller)
        async with self._entrance.open_stream("ExecuteRun", caller, responses, servicer_context):
            async for response in responses:
                yield response

    async def WatchRun(self, wire: bytes, servicer_context: ServicerContext) -> AsyncIterator[EventResponse]:
        """Streams the events of a run after a sequence number until it ends."""
        caller, request = await self._entrance.accept(runs_pb2.WatchRunRequest, wire, servicer_context)
        self._leave_out_chunks(request)
        responses = self._forwarder.watch(request, caller)
        async with self._entrance.open_stream("WatchRun", caller, responses, servicer_context):
            async for response in responses:
                yield response

    def _leave_out_chunks(self, request: runs_pb2.ExecuteRunRequest | runs_pb2.WatchRunRequest) -> None:
        """What models say in pieces is not asked for where anything is masked: nothing is found in a piece."""
        request.token_chunks = request.token_chunks and not self._redaction.holds


def _correlate(create: runs_pb2.CreateRunRequest) -> None:
    """Gives a run the caller's correlation id, or a new one, and carries it to every service from here on."""
    create.correlation_id = create.correlation_id or str(uuid4())
    context.attach(carrying({CORRELATION_ID: create.correlation_id}))
