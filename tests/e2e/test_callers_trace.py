"""Whose trace a call is in: the platform's own, linked to its caller's, unless the gateway is told to adopt that."""

from __future__ import annotations

import pytest
from signalbox.v1 import runs_pb2

from services.kit.telemetry.names import AUTHORIZATION
from tests.fixtures.client import CALL_TIMEOUT_S
from tests.fixtures.otlp import Span, Trace, TraceCollector
from tests.fixtures.stack import Platform, World, platform

CALLERS_TRACE, CALLERS_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ROOT = "server signalbox.v1.RunService/ListRuns"


def served_by_gateway(trace: Trace) -> list[Span]:
    """The gateway's own spans of the call."""
    return [span for span in trace.named(ROOT) if span.service == "gateway"]


async def list_runs(signalbox: Platform, *, sampled: bool) -> None:
    """A call that says which trace it is part of, with a scheme that nobody writes but anybody may."""
    traceparent = f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-{'01' if sampled else '00'}"
    client = signalbox.caller("27")
    token = f"bEARER {signalbox.stack.token('27')}"
    await client.stub.ListRuns(
        runs_pb2.ListRunsRequest(),
        metadata=((AUTHORIZATION, token), ("traceparent", traceparent), ("baggage", "signalbox.run_id=theirs")),
        timeout=CALL_TIMEOUT_S,
    )


@pytest.mark.parametrize("sampled", [True, False])
async def test_a_callers_trace_is_linked_and_not_adopted(harbour: World, sampled: bool) -> None:
    async with TraceCollector() as collector, platform(harbour, otlp_endpoint=collector.endpoint) as signalbox:
        await list_runs(signalbox, sampled=sampled)
        trace = await collector.wait_for(served_by_gateway)
        [root] = served_by_gateway(trace)
        assert root.parent_id == ""
        assert root.trace_id != CALLERS_TRACE
        assert root.links == [(CALLERS_TRACE, CALLERS_SPAN)]
        assert CALLERS_TRACE not in collector.traces


async def test_a_gateway_may_be_told_to_adopt_it(harbour: World) -> None:
    adopting = {"gateway": {"SIGNALBOX_ADOPT_TRACEPARENT": "true"}}
    async with (
        TraceCollector() as collector,
        platform(harbour, otlp_endpoint=collector.endpoint, service_env=adopting) as signalbox,
    ):
        await list_runs(signalbox, sampled=True)
        trace = await collector.trace(CALLERS_TRACE, until=served_by_gateway)
        [served] = served_by_gateway(trace)
        assert (served.parent_id, served.links) == (CALLERS_SPAN, [])
