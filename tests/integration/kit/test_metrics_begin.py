"""What a service's metrics say before anything has happened: what runs, and that nothing has failed yet."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import guard_pb2_grpc

from services.guard.errors import InvalidQuestion
from services.kit.settings import ServiceSettings
from services.kit.wire.server import Registration, Service, running
from tests.fixtures.scrape import scrape

GUARD = "signalbox.v1.GuardService"
SCREEN = f"/{GUARD}/Screen"


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
    servicer = guard_pb2_grpc.GuardServiceServicer()  # type: ignore[abstract]
    return Service([Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, servicer, GUARD)])


async def test_a_service_says_what_it_was_built_from() -> None:
    async with running("built", ServiceSettings(revision="0123abc"), build) as service:
        found = await scrape(service.metrics_address)
    [told] = found.matching("signalbox_build_info", {"service": "built"})
    assert (told.value, told.labels["revision"]) == (1, "0123abc")
    assert told.labels["version"]


async def test_the_first_failure_of_a_method_is_an_increase() -> None:
    async with running("fresh", ServiceSettings(), build) as service:
        found = await scrape(service.metrics_address)
    for reason in ("INTERNAL", "TOKEN_EXPIRED", InvalidQuestion.reason):
        assert found.matching("signalbox_rpc_server_errors_total", {"reason": reason})
    assert found.matching("signalbox_rpc_server_faults_total", {"method": SCREEN})
