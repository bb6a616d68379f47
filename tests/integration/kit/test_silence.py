"""A connection that goes silent without a word: both ends learn that it is over, and a quiet one that works is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.settings import ServiceSettings
from services.kit.wire.client import connect
from services.kit.wire.server import Registration, Service, running
from services.kit.wire.silence import GRPC_OPTIONS
from tests.fixtures.silent_proxy import Direction, SilentProxy

# The same options, sooner: gRPC by itself stops asking after two pings, and would wait a minute for an answer.
PING_AFTER_MS = 2_500
SOONER = tuple({**dict(GRPC_OPTIONS), "grpc.keepalive_time_ms": PING_AFTER_MS}.items())
SEVERAL_PINGS_S = 4 * PING_AFTER_MS / 1000
TIMEOUT_S = 40.0


class Quiet(runs_pb2_grpc.RunServiceServicer):
    """Sends one event, and nothing more until the caller has gone."""

    def __init__(self) -> None:
        self.watchers = 0

    async def WatchRun(  # noqa: N802 - the proto's name
        self, _request: Any, _context: Any
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Counts who watches."""
        self.watchers += 1
        try:
            yield runs_pb2.WatchRunResponse()
            await asyncio.Event().wait()
        finally:
            self.watchers -= 1


@pytest.fixture
async def quiet() -> Quiet:
    return Quiet()  # type: ignore[abstract]


@pytest.fixture
async def address(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Where the quiet service listens; the client's and the server's connections are asked sooner than usual."""
    for end in ("client", "server"):
        monkeypatch.setattr(f"services.kit.wire.{end}.GRPC_OPTIONS", SOONER)

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        return Service([Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, quiet, "signalbox.v1.RunService")])

    async with running("quiet", ServiceSettings(shutdown_grace_s=1), build) as service:
        yield service.address


async def watched(proxy: SilentProxy, watching: asyncio.Event) -> grpc.StatusCode:
    """Watches through the proxy until that ends; returns how."""
    async with connect(f"ipv4:{proxy.address}", ServiceSettings()) as channel:
        events = runs_pb2_grpc.RunServiceStub(channel).WatchRun(runs_pb2.WatchRunRequest())
        try:
            async for _ in events:
                watching.set()
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the ends of calls, as the server sees them
        await asyncio.sleep(0.01)


async def test_both_ends_of_a_quiet_stream_notice_silence_in_any_direction(quiet: Quiet, address: str) -> None:
    async with AsyncExitStack() as stack:
        proxies = {each: await stack.enter_async_context(SilentProxy(address)) for each in Direction.BOTH}
        proxies[Direction.BOTH] = await stack.enter_async_context(SilentProxy(address))
        watching = {each: asyncio.Event() for each in proxies}
        ends = [asyncio.create_task(watched(proxy, watching[each])) for each, proxy in proxies.items()]
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(event.wait() for event in watching.values()))
        ended, _ = await asyncio.wait(ends, timeout=SEVERAL_PINGS_S)
        assert not ended
        assert quiet.watchers == len(ends)
        for direction, proxy in proxies.items():
            proxy.silence(direction)
        async with asyncio.timeout(TIMEOUT_S):
            assert set(await asyncio.gather(*ends)) == {grpc.StatusCode.UNAVAILABLE}
            await until(lambda: quiet.watchers == 0)
