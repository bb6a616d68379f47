"""How a stream ended, as spans and metrics tell it: a caller who leaves after the last word has broken nothing off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.settings import ServiceSettings
from services.kit.telemetry.metrics import RPC_DURATION, RPC_FAULTS
from services.kit.telemetry.names import RPC_STATUS
from services.kit.wire.client import connect
from services.kit.wire.server import Registration, Service, running

METHOD = "/signalbox.v1.RunService/WatchRun"
TIMEOUT_S = 60.0
STARTED = runs_pb2.RunEvent(sequence=1, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING))
ASKS = runs_pb2.RunEvent(sequence=2, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_AWAITING_INPUT))
ENDED = runs_pb2.RunEvent(sequence=2, run_ended=runs_pb2.RunEnded())


class Script(runs_pb2_grpc.RunServiceServicer):
    """Sends what it is told to, and then takes its time to end the stream."""

    def __init__(self) -> None:
        self.events: list[runs_pb2.RunEvent] = []
        self.asked = 0

    async def GetRun(self, _request: Any, context: Any) -> runs_pb2.GetRunResponse:  # noqa: N802 - the proto's name
        """Says no once the caller's time is over, as who has waited for another service does."""
        self.asked += 1
        while context.time_remaining() > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "too late")
        raise AssertionError("abort returned")

    async def WatchRun(  # noqa: N802 - the proto's name
        self, _request: Any, _context: Any
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Sends the events, and waits until the caller has gone."""
        for event in self.events:
            yield runs_pb2.WatchRunResponse(event=event)
        await asyncio.Event().wait()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that client and server make."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for end in ("client", "interceptor"):
        monkeypatch.setattr(f"services.kit.wire.{end}.tracer", lambda: provider.get_tracer("tests"))
    yield exporter
    provider.shutdown()


@pytest.fixture
async def script() -> Script:
    return Script()  # type: ignore[abstract]


@pytest.fixture
async def stub(script: Script) -> AsyncIterator[runs_pb2_grpc.RunServiceAsyncStub]:
    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        add = runs_pb2_grpc.add_RunServiceServicer_to_server
        return Service([Registration(add, script, "signalbox.v1.RunService")])

    settings = ServiceSettings(shutdown_grace_s=1)
    async with running("script", settings, build) as service, connect(f"ipv4:{service.address}", settings) as channel:
        yield runs_pb2_grpc.RunServiceStub(channel)


async def leave_after(stub: runs_pb2_grpc.RunServiceAsyncStub, count: int) -> None:
    """Reads so many events, and leaves."""
    call = stub.WatchRun(runs_pb2.WatchRunRequest())
    seen = 0
    async for _ in call:
        seen += 1
        if seen == count:
            break
    call.cancel()


async def told(spans: InMemorySpanExporter) -> dict[SpanKind, tuple[int, bool]]:
    """Status code, and whether it is an error, of both ends' span."""
    async with asyncio.timeout(TIMEOUT_S):
        while len(found := spans.get_finished_spans()) < 2:  # noqa: ASYNC110 - the server learns of it a moment later
            await asyncio.sleep(0.01)
    return {span.kind: _told(span) for span in found}


def _told(span: ReadableSpan) -> tuple[int, bool]:
    assert span.attributes is not None
    return int(str(span.attributes[RPC_STATUS])), span.status.status_code is StatusCode.ERROR


def served(code: grpc.StatusCode) -> float:
    """How many calls have been served with a code."""
    samples = [sample for metric in RPC_DURATION.collect() for sample in metric.samples]
    wanted = {"method": METHOD, "code": code.name}
    return sum(each.value for each in samples if each.name.endswith("_count") and each.labels == wanted)


@pytest.mark.parametrize("last", [ENDED, ASKS], ids=["ended", "asks"])
async def test_a_caller_who_leaves_after_the_last_word_is_served(
    stub: runs_pb2_grpc.RunServiceAsyncStub, script: Script, spans: InMemorySpanExporter, last: runs_pb2.RunEvent
) -> None:
    script.events = [STARTED, last]
    before = served(grpc.StatusCode.OK)
    await leave_after(stub, 2)
    ok = (grpc.StatusCode.OK.value[0], False)
    assert await told(spans) == {SpanKind.CLIENT: ok, SpanKind.SERVER: ok}
    assert served(grpc.StatusCode.OK) == before + 1


async def test_a_caller_who_leaves_before_it_has_broken_off(
    stub: runs_pb2_grpc.RunServiceAsyncStub, script: Script, spans: InMemorySpanExporter
) -> None:
    script.events = [STARTED]
    before = served(grpc.StatusCode.CANCELLED)
    await leave_after(stub, 1)
    cancelled = (grpc.StatusCode.CANCELLED.value[0], True)
    assert await told(spans) == {SpanKind.CLIENT: cancelled, SpanKind.SERVER: cancelled}
    assert served(grpc.StatusCode.CANCELLED) == before + 1


async def test_a_refusal_after_the_caller_s_time_is_no_fault_of_the_platform(
    stub: runs_pb2_grpc.RunServiceAsyncStub, script: Script, spans: InMemorySpanExporter
) -> None:
    """Alerts look at faults: who gives a slow call too little time must not set them off."""
    method = "/signalbox.v1.RunService/GetRun"
    faults = RPC_FAULTS.labels(method)
    before = faults._value.get()
    calls = [stub.GetRun(runs_pb2.GetRunRequest(), timeout=0.5) for _ in range(20)]
    ends = await asyncio.gather(*(call.code() for call in calls))
    assert set(ends) == {grpc.StatusCode.DEADLINE_EXCEEDED}
    async with asyncio.timeout(TIMEOUT_S):  # on a busy machine a caller's time ends before some calls have arrived
        while not 0 < script.asked <= served_spans(spans):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert faults._value.get() == before


def served_spans(spans: InMemorySpanExporter) -> int:
    """How many calls the server has told of."""
    return sum(span.kind is SpanKind.SERVER for span in spans.get_finished_spans())
