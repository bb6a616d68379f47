"""What one caller may ask of a gateway, and that others don't suffer for it."""

import asyncio
from typing import Any

import grpc
import pytest
from signalbox.v1 import runs_pb2

from services.kit.errors import error_detail
from tests.integration.gateway.conftest import Platform, StartPlatform, question


async def list_runs(platform: Platform, subject: str = "27") -> None:
    await platform.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=platform.auth(subject))


async def open_stream(platform: Platform, subject: str = "27") -> Any:
    """A stream that is open for certain: its first event has come."""
    call = platform.stub.ExecuteRun(runs_pb2.ExecuteRunRequest(create=question()), metadata=platform.auth(subject))
    assert (await call.read()) is not grpc.aio.EOF
    return call


async def test_a_caller_over_its_rate_is_refused_with_the_time_to_wait(start_platform: StartPlatform) -> None:
    platform = await start_platform(quota_requests_per_minute=1, quota_burst=3)
    for _ in range(3):
        await list_runs(platform)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await list_runs(platform)
    detail = error_detail(caught.value)
    assert detail.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert detail.reason == "TOO_MANY_REQUESTS"
    assert detail.retryable
    assert detail.retry_after_s is not None
    assert 30 < detail.retry_after_s <= 60
    assert len(platform.calls) == 3
    await list_runs(platform, "31")  # another caller has its own


async def test_a_caller_with_too_many_streams_is_refused_until_one_ends(start_platform: StartPlatform) -> None:
    platform = await start_platform(quota_concurrent_streams=2)
    first, _second = await open_stream(platform), await open_stream(platform)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await open_stream(platform)
    detail = error_detail(caught.value)
    assert detail.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert detail.reason == "TOO_MANY_STREAMS"
    assert detail.retry_after_s
    await open_stream(platform, "31")
    first.cancel()
    async with asyncio.timeout(60):
        while sum(replica.open_streams for replica in platform.replicas) > 2:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
        # The replica may have learned of that before the gateway has counted it.
        while not await opened(platform):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.1)


async def opened(platform: Platform) -> bool:
    """Whether there was room for a stream."""
    try:
        await open_stream(platform)
    except grpc.aio.AioRpcError as error:
        if error_detail(error).reason != "TOO_MANY_STREAMS":
            raise
        return False
    return True


async def test_bad_requests_count_too(start_platform: StartPlatform) -> None:
    platform = await start_platform(quota_requests_per_minute=1, quota_burst=1)
    codes = []
    for _ in range(2):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await platform.stub.CreateRun(runs_pb2.CreateRunRequest(), metadata=platform.auth())
        codes.append(caught.value.code())
    assert codes == [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED]
