"""Whose trace a call is in: the platform's own, linked to its caller's, unless the gateway is told to adopt that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
from signalbox.v1 import runs_pb2
from signalbox.v1.questions_pb2 import AnswerQuestionRequest
from signalbox.v1.questions_pb2_grpc import QuestionServiceStub
from signalbox.v1.runs_pb2 import CancelRunRequest, ListRunsRequest, ResumeRunRequest
from signalbox.v1.runs_pb2_grpc import RunServiceStub

from services.cli.graph_edits import edit_request
from services.kit.telemetry.names import AUTHORIZATION
from services.local.database import WORLD_GRAPH_POLICY
from tests.fixtures.client import CALL_TIMEOUT_S
from tests.fixtures.otlp import Span, Trace, TraceCollector
from tests.fixtures.stack import Platform, World, platform

CALLERS_SPAN = "b7ad6b7169203331"
WAITING = ListRunsRequest(state=runs_pb2.RUN_STATE_AWAITING_INPUT)
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
    async with (
        TraceCollector() as collector,
        platform(harbour, otlp_endpoint=collector.endpoint, graph_policy=WORLD_GRAPH_POLICY) as signalbox,
    ):
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


async def test_an_answer_is_linked_to_its_run_by_either_door(traced: tuple[Platform, TraceCollector]) -> None:
    signalbox, collector = traced
    client = signalbox.caller("27")
    for door in ("RunService/ResumeRun", "QuestionService/AnswerQuestion"):
        create = edit_request("My dashboard is broken. Fix it.")
        asking = [event async for event in client.execute(create)][-1].state_changed.input_request.input_request_id
        [run] = (await client.stub.ListRuns(WAITING, metadata=client.metadata, timeout=CALL_TIMEOUT_S)).runs
        service = RunServiceStub if door.startswith("RunService") else QuestionServiceStub
        request = ResumeRunRequest if door.startswith("RunService") else AnswerQuestionRequest
        given = request(run_id=run.run_id, input_request_id=asking, answer="never mind")
        answer = getattr(service(signalbox.channel), door.rpartition("/")[2])
        await answer(given, metadata=client.metadata, timeout=CALL_TIMEOUT_S)

        def linked(trace: Trace, door: str = door, run: str = run.trace_id) -> list[Span]:
            return [span for span in trace.named(f"server signalbox.v1.{door}") if run in dict(span.links)]

        assert [span.service for span in linked(await collector.wait_for(linked))] == ["runtime"]
        await client.stub.CancelRun(CancelRunRequest(run_id=run.run_id), metadata=client.metadata)
