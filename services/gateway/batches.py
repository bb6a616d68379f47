"""BatchService as callers see it: forwarded to the service for batches with the gateway's word about who calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from signalbox.v1 import batches_pb2, batches_pb2_grpc

from services.gateway.entrance import Entrance, ServicerContext
from services.gateway.errors import BatchesUnavailable
from services.gateway.open_streams import OpenStreams
from services.gateway.recovery import RETRY_AFTER_S, was_cut, written_by_servicer
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter

ResponseT = TypeVar("ResponseT", bound=Message)


class BatchForwarder:
    """Forwards calls to the service for batches.

    A stream that is cut ends for its caller, who knows where to go on: behind the last item received.
    """

    def __init__(self, batches: batches_pb2_grpc.BatchServiceAsyncStub, minter: CallerTokenMinter) -> None:
        self.stub = batches
        self._minter = minter
        self.streams = OpenStreams("this gateway is shutting down; call again behind the last item received")

    async def call(self, method: Callable[..., Awaitable[ResponseT]], request: Message, caller: Caller) -> ResponseT:
        """Makes a unary call; the channel retries those that are safe to repeat."""
        try:
            return await method(request, metadata=self._metadata(caller))
        except grpc.aio.AioRpcError as error:
            if was_cut(error) and not written_by_servicer(error):
                raise _unavailable() from error
            raise

    def watch(
        self, request: batches_pb2.WatchBatchRequest, caller: Caller
    ) -> AsyncGenerator[batches_pb2.WatchBatchResponse, None]:
        """Yields how far a batch has come, and its items as they end."""
        return self._stream(self.stub.WatchBatch, request, caller)

    def export(
        self, request: batches_pb2.ExportBatchRequest, caller: Caller
    ) -> AsyncGenerator[batches_pb2.ExportBatchResponse, None]:
        """Yields the items of a batch, in their order."""
        return self._stream(self.stub.ExportBatch, request, caller)

    async def _stream(self, method: Callable[..., Any], request: Message, caller: Caller) -> AsyncGenerator[Any, None]:
        self.streams.check()
        call = method(request, metadata=self._metadata(caller))
        with self.streams.reading(call):
            try:
                async for response in call:
                    yield response
            except grpc.aio.AioRpcError as error:
                if was_cut(error) and not written_by_servicer(error):
                    raise _unavailable() from error
                raise

    def _metadata(self, caller: Caller) -> tuple[tuple[str, str], ...]:
        return (bearer_metadata(self._minter.mint(caller)),)


def _unavailable() -> BatchesUnavailable:
    message = "no replica of the service for batches can be reached; try again, batches under way are not affected"
    return BatchesUnavailable(message, retry_after_s=RETRY_AFTER_S)


class BatchServicer:
    """WatchBatch and ExportBatch; requests come in their wire form."""

    def __init__(self, entrance: Entrance, forwarder: BatchForwarder) -> None:
        self._entrance = entrance
        self._forwarder = forwarder

    async def WatchBatch(  # noqa: N802 - the proto's
        self, wire: bytes, servicer_context: ServicerContext
    ) -> AsyncIterator[batches_pb2.WatchBatchResponse]:
        """Streams how far a batch has come, and its items as they end."""
        caller, request = await self._entrance.accept(batches_pb2.WatchBatchRequest, wire, servicer_context)
        responses = self._forwarder.watch(request, caller)
        async with self._entrance.open_stream("WatchBatch", caller, responses, servicer_context):
            async for response in responses:
                yield response

    async def ExportBatch(  # noqa: N802 - the proto's
        self, wire: bytes, servicer_context: ServicerContext
    ) -> AsyncIterator[batches_pb2.ExportBatchResponse]:
        """Streams the items of a batch, in their order."""
        caller, request = await self._entrance.accept(batches_pb2.ExportBatchRequest, wire, servicer_context)
        responses = self._forwarder.export(request, caller)
        async with self._entrance.open_stream("ExportBatch", caller, responses, servicer_context):
            async for response in responses:
                yield response
