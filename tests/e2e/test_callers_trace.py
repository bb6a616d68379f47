"""Whose trace a call is in: the platform's own, linked to its caller's, unless the gateway is told to adopt that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
from signalbox.v1 import runs_pb2

from services.kit.telemetry.names import AUTHORIZATION
from tests.fixtures.client import CALL_TIMEOUT_S
from tests.fixtures.otlp import Span, Trace, TraceCollector
from tests.fixtures.stack import Platform, World, platform

CALLERS_SPAN = "b7ad6b7169203331"
ROOT = "server signalbox.v1.RunService/ListRuns"


def served_by_gateway(trace: Trace) -> list[Span]:
    """The gateway's own spans of the call."""
    return [span for span in trace.named(ROOT) if span.service == "gateway"]


async def list_runs(signalbox: Platform, callers_trace: str, *, sampled: bool) -> None:
    """A call that says which trace it is part of, with a scheme that nobody writes but anybody may."""
    traceparent = f"00-{callers_trace}-{CALLERS_SPAN}-{'01' if sampled else '00'}"
    client = signalbox.caller("27")
    token = f"bEARER {signalbox.stack.token('27')}"
    await client.stub.ListRuns(
        runs_pb2.ListRunsRequest(),
        metadata=((AUTHORIZATION, token), ("traceparent", traceparent), ("baggage", "signalbox.run_id=theirs")),
        timeout=CALL_TIMEOUT_S,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(harbour: World) -> AsyncIterator[tuple[Platform, TraceCollector]]:
    """A platform as it is unless its operator says otherwise, and its traces."""
    async with TraceCollector() as collector, platform(harbour, otlp_endpoint=collector.endpoint) as signalbox:
        yield signalbox, collector


@pytest.mark.parametrize("sampled", [True, False])
async def test_a_callers_trace_is_linked_and_not_adopted(
    traced: tuple[Platform, TraceCollector], sampled: bool
) -> None:
    signalbox, collector = traced
    callers_trace = uuid4().hex
    await list_runs(signalbox, callers_trace, sampled=sampled)

    def linked(trace: Trace) -> list[Span]:
        return [span for span in served_by_gateway(trace) if (callers_trace, CALLERS_SPAN) in span.links]

    trace = await collector.wait_for(linked)
    [root] = linked(trace)
    assert root.parent_id == ""
    assert root.trace_id != callers_trace
    assert root.links == [(callers_trace, CALLERS_SPAN)]
    assert callers_trace not in collector.traces


async def test_a_gateway_may_be_told_to_adopt_it(harbour: World) -> None:
    adopting = {"gateway": {"SIGNALBOX_ADOPT_TRACEPARENT": "true"}}
    async with (
        TraceCollector() as collector,
        platform(harbour, otlp_endpoint=collector.endpoint, service_env=adopting) as signalbox,
    ):
        callers_trace = uuid4().hex
        await list_runs(signalbox, callers_trace, sampled=True)
        trace = await collector.trace(callers_trace, until=served_by_gateway)
        [served] = served_by_gateway(trace)
        assert (served.parent_id, served.links) == (CALLERS_SPAN, [])
