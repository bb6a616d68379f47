"""Streams of batches at a gateway that shuts down: their callers are told to go on at another."""

# ruff: noqa: N802, ARG002 - methods are the proto's

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from signalbox.v1 import batches_pb2, batches_pb2_grpc

from services.gateway.batches import BatchForwarder
from services.gateway.errors import Draining
from services.kit.errors import error_detail
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.identity.keys import generate_keypair
from services.kit.telemetry.names import AUDIENCE_BATCHES
from tests.integration.gateway.conftest import StartPlatform

BATCH_ID = "0190a5b0-0000-7000-8000-000000000001"


class Batches(batches_pb2_grpc.BatchServiceServicer):
    """A service for batches whose streams say one thing and then stay open."""

    async def WatchBatch(self, request: Any, context: Any) -> AsyncIterator[batches_pb2.WatchBatchResponse]:
        """Says that there is a batch."""
        yield batches_pb2.WatchBatchResponse(batch=batches_pb2.Batch(batch_id=request.batch_id))
        await asyncio.Event().wait()

    async def ExportBatch(self, request: Any, context: Any) -> AsyncIterator[batches_pb2.ExportBatchResponse]:
        """Says that there is an item."""
        yield batches_pb2.ExportBatchResponse(item=batches_pb2.BatchItem(number=1))
        await asyncio.Event().wait()


@pytest.fixture
async def batches() -> AsyncIterator[str]:
    """The address of a service for batches."""
    server = grpc.aio.server()
    batches_pb2_grpc.add_BatchServiceServicer_to_server(Batches(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"ipv4:127.0.0.1:{port}"
    await server.stop(None)


async def test_callers_are_told_that_the_gateway_shuts_down(start_platform: StartPlatform, batches: str) -> None:
    platform = await start_platform(batches_target=batches)
    stub = batches_pb2_grpc.BatchServiceStub(platform.channel)
    watch: Any = stub.WatchBatch(batches_pb2.WatchBatchRequest(batch_id=BATCH_ID), metadata=platform.auth())
    export: Any = stub.ExportBatch(batches_pb2.ExportBatchRequest(batch_id=BATCH_ID), metadata=platform.auth())
    for stream in (watch, export):
        await stream.read()
    stopping = asyncio.ensure_future(platform.stop_gateway())
    for stream in (watch, export):
        with pytest.raises(grpc.aio.AioRpcError) as told:
            async with asyncio.timeout(30):
                await stream.read()
        detail = error_detail(told.value)
        assert (detail.code, detail.reason, detail.retryable) == (grpc.StatusCode.UNAVAILABLE, "DRAINING", True)
    await stopping


async def test_no_stream_is_begun_while_the_gateway_shuts_down(batches: str) -> None:
    minter = CallerTokenMinter(generate_keypair().private_pem, ttl_s=60, audience=AUDIENCE_BATCHES)
    async with grpc.aio.insecure_channel(batches) as channel:
        forwarder = BatchForwarder(batches_pb2_grpc.BatchServiceStub(channel), minter)
        forwarder.streams.drain()
        watch = forwarder.watch(batches_pb2.WatchBatchRequest(batch_id=BATCH_ID), Caller("27"))
        with pytest.raises(Draining):
            await anext(watch)
