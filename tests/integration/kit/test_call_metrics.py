"""Calls between services, counted on both sides: per edge where they are made, and under way where they are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from prometheus_client import REGISTRY
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.guard.errors import InvalidQuestion
from services.kit.settings import ServiceSettings
from services.kit.wire.client import connect
from services.kit.wire.server import Registration, Running, Service, running

GUARD = "signalbox.v1.GuardService"
SCREEN = f"/{GUARD}/Screen"


class HeldGuard(guard_pb2_grpc.GuardServiceServicer):
    """Answers when it is told to, and refuses the empty question."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def Screen(  # noqa: N802 - the proto's name
        self, request: guard_pb2.ScreenRequest, context: Any
    ) -> guard_pb2.ScreenResponse:
        """Waits; raises InvalidQuestion."""
        del context
        self.asked.set()
        await self.answer.wait()
        if not request.question:
            raise InvalidQuestion("nothing was asked")
        return guard_pb2.ScreenResponse()


@pytest.fixture
async def held() -> AsyncIterator[tuple[HeldGuard, Running]]:
    """A guard, and where it serves."""
    guard = HeldGuard()

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        return Service([Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, guard, GUARD)])

    async with running("guard", ServiceSettings(shutdown_grace_s=1), build) as service:
        yield guard, service


def value(name: str, **labels: str) -> float:
    """A sample of this process; a missing one is no 0."""
    found = REGISTRY.get_sample_value(f"signalbox_{name}", labels)
    assert found is not None, f"there is no {name} with {labels}"
    return found


async def test_an_edge_counts_its_calls_by_how_they_ended(held: tuple[HeldGuard, Running]) -> None:
    guard, service = held
    guard.answer.set()
    target = f"ipv4:{service.address}"
    async with connect(target, ServiceSettings()) as channel:
        for code in ("OK", "INVALID_ARGUMENT", "UNAVAILABLE"):
            assert value("rpc_client_calls_total", target=target, code=code) == 0, "before the first call of its kind"
        stub = guard_pb2_grpc.GuardServiceStub(channel)
        await stub.Screen(guard_pb2.ScreenRequest(question="May I?"))
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Screen(guard_pb2.ScreenRequest())
    assert value("rpc_client_calls_total", target=target, code="OK") == 1
    assert value("rpc_client_calls_total", target=target, code="INVALID_ARGUMENT") == 1
    assert value("rpc_client_calls_total", target=target, code="UNAVAILABLE") == 0
    assert value("rpc_client_duration_seconds_count", target=target) == 2


async def test_a_call_counts_as_under_way_until_it_ends_or_its_caller_leaves(held: tuple[HeldGuard, Running]) -> None:
    guard, service = held
    assert value("rpc_server_calls_active", method=SCREEN) == 0
    async with connect(f"ipv4:{service.address}", ServiceSettings()) as channel:
        stub = guard_pb2_grpc.GuardServiceStub(channel)
        call = stub.Screen(guard_pb2.ScreenRequest(question="May I?"))
        await guard.asked.wait()
        assert value("rpc_server_calls_active", method=SCREEN) == 1
        call.cancel()
        async with asyncio.timeout(60):
            while value("rpc_server_calls_active", method=SCREEN) > 0:  # noqa: ASYNC110 - metrics tell nobody
                await asyncio.sleep(0.01)
        guard.answer.set()
        await stub.Screen(guard_pb2.ScreenRequest(question="May I?"))
    assert value("rpc_server_calls_active", method=SCREEN) == 0
