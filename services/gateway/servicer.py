"""RunService as callers see it: who calls, how much they may, what they ask, then the runtime's answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from uuid import uuid4

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status
from opentelemetry import baggage, context
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.gateway.authentication import Authenticator
from services.gateway.forwarding import RunForwarder
from services.gateway.metrics import OPEN_STREAMS
from services.gateway.quota import Quotas
from services.gateway.validation import RequestReader
from services.kit.identity import Caller, bearer_token
from services.kit.names import CORRELATION_ID
from services.kit.telemetry import carrying

SERVICE = runs_pb2.DESCRIPTOR.services_by_name["RunService"]
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ServicerContext = grpc.aio.ServicerContext[Any, Any]


class GatewayServicer:
    """Takes requests in their wire form, so that what can't be parsed is refused like anything else that is wrong."""

    def __init__(
        self,
        authenticator: Authenticator,
        quotas: Quotas,
        reader: RequestReader,
        runtime: runs_pb2_grpc.RunServiceAsyncStub,
        forwarder: RunForwarder,
    ) -> None:
        self._authenticator = authenticator
        self._quotas = quotas
        self._reader = reader
        self._runtime = runtime
        self._forwarder = forwarder

    async def CreateRun(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.CreateRunResponse:
        """Create a run and return at once."""
        caller, request = await self._accept(runs_pb2.CreateRunRequest, wire, servicer_context)
        _correlate(request)
        async with _passing_errors(servicer_context):
            return await self._forwarder.create(request, caller)

    async def ExecuteRun(
        self, wire: bytes, servicer_context: ServicerContext
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        """Create a run and stream its events until it ends."""
        caller, request = await self._accept(runs_pb2.ExecuteRunRequest, wire, servicer_context)
        _correlate(request.create)
        events = self._forwarder.execute(request, caller)
        async with self._open_stream("ExecuteRun", caller, events, servicer_context):
            async for event in events:
                yield runs_pb2.ExecuteRunResponse(event=event)

    async def WatchRun(
        self, wire: bytes, servicer_context: ServicerContext
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Stream the events of a run after a sequence number until it ends."""
        caller, request = await self._accept(runs_pb2.WatchRunRequest, wire, servicer_context)
        events = self._forwarder.watch(request, caller)
        async with self._open_stream("WatchRun", caller, events, servicer_context):
            async for event in events:
                yield runs_pb2.WatchRunResponse(event=event)

    async def GetRun(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.GetRunResponse:
        """Return a run."""
        return await self._forward(runs_pb2.GetRunRequest, self._runtime.GetRun, wire, servicer_context)

    async def ListRuns(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.ListRunsResponse:
        """List runs, newest first."""
        return await self._forward(runs_pb2.ListRunsRequest, self._runtime.ListRuns, wire, servicer_context)

    async def CancelRun(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.CancelRunResponse:
        """Ask a run to stop."""
        return await self._forward(runs_pb2.CancelRunRequest, self._runtime.CancelRun, wire, servicer_context)

    async def ResumeRun(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.ResumeRunResponse:
        """Answer the question of a run that awaits input."""
        return await self._forward(runs_pb2.ResumeRunRequest, self._runtime.ResumeRun, wire, servicer_context)

    async def ListDecisions(self, wire: bytes, servicer_context: ServicerContext) -> runs_pb2.ListDecisionsResponse:
        """List the routing decisions of a run."""
        return await self._forward(runs_pb2.ListDecisionsRequest, self._runtime.ListDecisions, wire, servicer_context)

    async def _forward(
        self,
        request_type: type[RequestT],
        method: Callable[..., Awaitable[ResponseT]],
        wire: bytes,
        servicer_context: ServicerContext,
    ) -> ResponseT:
        caller, request = await self._accept(request_type, wire, servicer_context)
        async with _passing_errors(servicer_context):
            return await self._forwarder.call(method, request, caller)

    async def _accept(
        self, request_type: type[RequestT], wire: bytes, servicer_context: ServicerContext
    ) -> tuple[Caller, RequestT]:
        # Ids that come from outside are not believed: only the platform says which run a call belongs to.
        context.attach(baggage.clear())
        caller = await self._authenticator.authenticate(bearer_token(servicer_context.invocation_metadata()))
        self._quotas.spend_request(caller.subject)
        request = self._reader.read(request_type, wire)
        return caller, request

    @asynccontextmanager
    async def _open_stream(
        self,
        method: str,
        caller: Caller,
        events: AsyncGenerator[runs_pb2.RunEvent, None],
        servicer_context: ServicerContext,
    ) -> AsyncIterator[None]:
        with self._quotas.stream(caller.subject), OPEN_STREAMS.labels(method).track_inprogress():
            # Closed here, so that the runtime's stream ends with the caller's and not when the collector finds it.
            async with aclosing(events), _passing_errors(servicer_context):
                yield


def _correlate(create: runs_pb2.CreateRunRequest) -> None:
    """Give a run the caller's correlation id, or a new one, and carry it to every service from here on."""
    create.correlation_id = create.correlation_id or str(uuid4())
    context.attach(carrying({CORRELATION_ID: create.correlation_id}))


@asynccontextmanager
async def _passing_errors(servicer_context: ServicerContext) -> AsyncIterator[None]:
    """Pass on an error of the runtime with its code and details as they are."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        status = rpc_status.from_call(error)
        if status is None:
            await servicer_context.abort(error.code(), f"the runtime did not answer: {error.code().name}")
        else:
            await servicer_context.abort_with_status(rpc_status.to_status(status))


def add_to_server(servicer: GatewayServicer, server: grpc.aio.Server) -> None:
    """Register every method of RunService, with requests left in their wire form."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in SERVICE.methods:
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        handlers[method.name] = make(getattr(servicer, method.name), response_serializer=_to_wire)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),))
    server.add_registered_method_handlers(SERVICE.full_name, handlers)


def _to_wire(response: Message) -> bytes:
    return response.SerializeToString()
