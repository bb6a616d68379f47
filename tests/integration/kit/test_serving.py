"""A service built on the kit: health, context, deadlines and errors as its callers see them."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry import context
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.kit.errors import FieldViolation, SignalboxError, error_detail
from services.kit.settings import ServiceSettings
from services.kit.telemetry.tracing import carried, carrying
from services.kit.wire import deadline
from services.kit.wire.client import connect
from services.kit.wire.listening import CannotListen
from services.kit.wire.server import Registration, Service, running


class TooFond(SignalboxError):
    """A leaf for these tests."""

    reason = "TOO_FOND"
    code = grpc.StatusCode.FAILED_PRECONDITION


class Echo(guard_pb2_grpc.GuardServiceServicer):
    """Answers with what it sees of the call's context."""

    async def Screen(self, request, _context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Fails, hangs or answers, as the question says."""
        if request.question == "leaf":
            raise TooFond("no", retry_after_s=1.5, violations=[FieldViolation("a.b", "is wrong")], metadata={"k": "v"})
        if request.question == "bug":
            raise ZeroDivisionError("secret detail")
        if request.question == "left":
            return guard_pb2.ScreenResponse(model_elapsed_ms=deadline.remaining() or -1)
        return guard_pb2.ScreenResponse(reason=carried("run_id"))


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
    """Serves Echo."""
    return Service(
        [Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, Echo(), "signalbox.v1.GuardService")]
    )


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a running Echo."""
    settings = ServiceSettings()
    async with running("echo", settings, build) as service, connect(f"ipv4:{service.address}", settings) as opened:
        yield opened


async def screen(channel: grpc.aio.Channel, question: str, timeout_s: float = 60) -> guard_pb2.ScreenResponse:
    """Calls the echo service."""
    stub = guard_pb2_grpc.GuardServiceStub(channel)
    return await stub.Screen(guard_pb2.ScreenRequest(question=question), timeout=timeout_s)


async def test_a_leaf_arrives_with_its_details(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await screen(channel, "leaf")
    detail = error_detail(caught.value)
    assert (detail.code, detail.reason, detail.message) == (grpc.StatusCode.FAILED_PRECONDITION, "TOO_FOND", "no")
    assert detail.retry_after_s == 1.5
    assert detail.violations == (FieldViolation("a.b", "is wrong"),)
    assert detail.metadata["k"] == "v"
    assert not detail.retryable


async def test_an_unforeseen_error_shows_no_internals(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await screen(channel, "bug")
    detail = error_detail(caught.value)
    assert detail.code is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value)
    assert len(detail.metadata["trace_id"]) == 32


async def test_baggage_crosses_the_wire(channel: grpc.aio.Channel) -> None:
    token = context.attach(carrying({"run_id": "r-1"}))
    try:
        assert (await screen(channel, "ids")).reason == "r-1"
    finally:
        context.detach(token)


async def test_the_deadline_reaches_the_server(channel: grpc.aio.Channel) -> None:
    left = (await screen(channel, "left", timeout_s=60)).model_elapsed_ms
    # Deadlines travel as three digits and a unit, rounded up.
    assert 0 < left < 61


async def test_thousands_of_calls_at_once_are_all_answered() -> None:
    settings = ServiceSettings()
    async with running("echo", settings, build) as service, grpc.aio.insecure_channel(service.address) as plain:
        answers = await asyncio.gather(*(screen(plain, "left", timeout_s=300) for _ in range(5000)))
    assert len(answers) == 5000


async def test_health_follows_the_life_of_the_service(tmp_path) -> None:  # type: ignore[no-untyped-def]
    settings = ServiceSettings(ready_file=tmp_path / "ready.json")
    async with running("echo", settings, build) as service:
        told = orjson.loads((tmp_path / "ready.json").read_bytes())
        assert told["listen"] == service.address
        async with grpc.aio.insecure_channel(told["listen"]) as opened:
            checks = health_pb2_grpc.HealthStub(opened)
            watching = checks.Watch(health_pb2.HealthCheckRequest(service="signalbox.v1.GuardService"))
            first = await watching.read()
            assert first.status == health_pb2.HealthCheckResponse.SERVING
            whole = await checks.Check(health_pb2.HealthCheckRequest())
            assert whole.status == health_pb2.HealthCheckResponse.SERVING
            watching.cancel()
    with pytest.raises((grpc.aio.AioRpcError, asyncio.TimeoutError)):
        async with grpc.aio.insecure_channel(told["listen"]) as opened:
            await health_pb2_grpc.HealthStub(opened).Check(health_pb2.HealthCheckRequest(), timeout=2)


@pytest.mark.parametrize("setting", ["SIGNALBOX_LISTEN", "SIGNALBOX_METRICS_LISTEN"])
def test_an_address_that_is_taken_is_told_with_its_setting_and_without_a_traceback(setting: str) -> None:
    run = "from tests.integration.kit.test_serving import *; from services.kit.wire.server import main; "
    run += "main('echo', ServiceSettings, build)"
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-c", run], env={setting: address}, capture_output=True, text=True, timeout=60, check=False
        )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"{setting}: can't listen at {address}: ")


@pytest.mark.parametrize("setting", ["listen", "metrics_listen"])
async def test_an_address_of_another_machine_is_told_with_its_setting(setting: str) -> None:
    settings = ServiceSettings.model_validate({setting: "192.0.2.1:0"})
    with pytest.raises(CannotListen, match=f"^SIGNALBOX_{setting.upper()}: can't listen at 192.0.2.1:0: "):
        async with running("echo", settings, build):
            pytest.fail("it served")
