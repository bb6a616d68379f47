"""Calls to the runtime on a caller's behalf, and streams that outlive the replica they started on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

import grpc
from google.protobuf.message import Message
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.gateway.errors import RuntimeUnavailable
from services.gateway.metrics import EVENTS_REPEATED, STREAM_CONTINUATIONS, STREAMS_GIVEN_UP
from services.gateway.open_streams import OpenStreams
from services.gateway.recovery import Recovery, RecoveryPolicy, unavailable, was_cut, written_by_servicer
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.telemetry.logs import get_logger
from services.kit.wire.event_kinds import RUN_ENDED

log = get_logger()
ResponseT = TypeVar("ResponseT", bound=Message)
# Each holds one event, under the same number: what one stream of the runtime says, another can be told as it is.
EventResponse = runs_pb2.ExecuteRunResponse | runs_pb2.WatchRunResponse


class Position:
    """How far a caller's stream has come: the run, the last event delivered, and what that event was.

    With `chunks` the caller asks for what models say, too: such events have no number, and come as they do. With
    `callback_events`, for what callbacks tell as well.
    """

    def __init__(
        self, run_id: str = "", sequence: int = 0, *, chunks: bool = False, callback_events: bool = False
    ) -> None:
        self.run_id = run_id
        self.sequence = sequence
        self.chunks = chunks
        self.callback_events = callback_events
        self._last: runs_pb2.RunEvent | None = None

    def is_new(self, event: runs_pb2.RunEvent) -> bool:
        """Whether an event has not been delivered yet."""
        if self._last is None:
            return True  # where a watch begins, the runtime says: who names an event that is still to come is sent it
        return event.sequence > self.sequence

    def advance(self, event: runs_pb2.RunEvent) -> None:
        """Notes that an event is delivered."""
        self.run_id, self.sequence, self._last = event.run_id, event.sequence, event

    def is_final(self, was_cut: bool) -> bool:
        """Whether nothing is left to deliver once the runtime's stream has ended, by itself or cut.

        A run that awaits input ends its stream too. But in a replay that event may be followed by others, so after a
        cut the runtime is asked. When a watch delivered nothing and ended by itself, its caller had seen all there is.
        """
        if self._last is None:
            return bool(self.run_id) and not was_cut
        if self._last.WhichOneof("event") == RUN_ENDED:
            return True
        state = self._last.state_changed.state
        return not was_cut and state == runs_pb2.RUN_STATE_AWAITING_INPUT


class RunForwarder:
    """Forwards calls to the runtime, with the gateway's word about who calls."""

    def __init__(
        self, runtime: runs_pb2_grpc.RunServiceAsyncStub, minter: CallerTokenMinter, policy: RecoveryPolicy
    ) -> None:
        self._runtime = runtime
        self._minter = minter
        self._policy = policy
        self.streams = OpenStreams(
            "this gateway is shutting down; call WatchRun again with the sequence number of the last event received"
        )

    async def call(self, method: Callable[..., Awaitable[ResponseT]], request: Message, caller: Caller) -> ResponseT:
        """Makes a unary call; the channel retries those that only read."""
        try:
            return await method(request, metadata=self._metadata(caller))
        except grpc.aio.AioRpcError as error:
            if was_cut(error) and not written_by_servicer(error):
                raise unavailable() from error
            raise

    async def create(self, request: runs_pb2.CreateRunRequest, caller: Caller) -> runs_pb2.CreateRunResponse:
        """Creates a run, again after a cut: its request id makes a repeat harmless."""
        request.request_id = request.request_id or str(uuid4())
        recovery = Recovery(self._policy)
        while True:
            try:
                return await self._runtime.CreateRun(request, metadata=self._metadata(caller))
            except grpc.aio.AioRpcError as error:
                if not was_cut(error):
                    raise
                await recovery.pause(error)

    def execute(self, request: runs_pb2.ExecuteRunRequest, caller: Caller) -> AsyncGenerator[EventResponse, None]:
        """Creates a run and yields responses with its events, each once, until one closes the stream."""
        request.create.request_id = request.create.request_id or str(uuid4())
        position = Position(chunks=request.token_chunks, callback_events=request.create.callback_events)
        return self._follow(position, caller, execute=request)

    def watch(self, request: runs_pb2.WatchRunRequest, caller: Caller) -> AsyncGenerator[EventResponse, None]:
        """Yields responses with the events of a run after a sequence number, each once, until one closes the stream."""
        position = Position(
            request.run_id,
            request.after_sequence,
            chunks=request.token_chunks,
            callback_events=request.callback_events,
        )
        return self._follow(position, caller)

    async def _follow(
        self, position: Position, caller: Caller, execute: runs_pb2.ExecuteRunRequest | None = None
    ) -> AsyncGenerator[EventResponse, None]:
        recovery = Recovery(self._policy)
        while True:
            cut: grpc.aio.AioRpcError | None = None
            call = self._open(position, caller, execute)
            with self.streams.reading(call):
                try:
                    async for response in call:
                        event = response.event
                        if not event.sequence:
                            yield response
                            continue
                        if not position.is_new(event):
                            EVENTS_REPEATED.inc()
                            continue
                        recovery.progressed()
                        position.advance(event)
                        yield response
                except grpc.aio.AioRpcError as error:
                    if not was_cut(error):
                        raise
                    cut = error
            if position.is_final(cut is not None):
                return
            await self._before_continuation(recovery, position, cut)

    def _open(
        self, position: Position, caller: Caller, execute: runs_pb2.ExecuteRunRequest | None
    ) -> grpc.aio.UnaryStreamCall[Any, Any]:
        self.streams.check()
        metadata = self._metadata(caller)
        # Before the first event the run may not exist yet: execute it again, by the same request id.
        if execute is not None and not position.run_id:
            return self._runtime.ExecuteRun(execute, metadata=metadata)
        watch = runs_pb2.WatchRunRequest(
            run_id=position.run_id,
            after_sequence=position.sequence,
            token_chunks=position.chunks,
            callback_events=position.callback_events,
        )
        return self._runtime.WatchRun(watch, metadata=metadata)

    async def _before_continuation(
        self, recovery: Recovery, position: Position, cause: grpc.aio.AioRpcError | None
    ) -> None:
        code = cause.code().name if cause else "OK"
        try:
            await recovery.pause(cause, position.run_id)
        except (RuntimeUnavailable, grpc.aio.AioRpcError):
            STREAMS_GIVEN_UP.inc()
            raise
        STREAM_CONTINUATIONS.labels(code).inc()
        log.info("stream continued", run_id=position.run_id, after_sequence=position.sequence, code=code)

    def _metadata(self, caller: Caller) -> tuple[tuple[str, str], ...]:
        return (bearer_metadata(self._minter.mint(caller)),)
