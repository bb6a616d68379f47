"""What the runtime notes of an evaluation: the call of the evaluator, and the evaluator's own call of its model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from signalbox.v1 import caller_pb2, evaluator_pb2, evaluator_pb2_grpc, sast_pb2

from services.kit.errors import SignalboxError, to_status
from services.kit.identity.caller import Caller
from services.kit.models.usage import ModelUsage
from services.kit.models.verdict_model import ModelUnavailable, ModelUnusable
from services.runtime.calls.evaluator_client import EvaluatorClient
from services.runtime.errors import DependencyAway, ServiceFailed
from services.runtime.routing.calls import collecting
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import spend_of

RUN = RunContext("r", "c", Caller("27"), 1, lambda _: "token")
CALL = evaluator_pb2.EvaluationModelCall(
    model="judge",
    token_usage=caller_pb2.TokenUsage(input_tokens=70, output_tokens=9),
    elapsed_ms=1234.5678,
    prompts="its",
    cached_tokens=61,
)


METHODS = pytest.mark.parametrize("method", ["critique_verdict", "evaluate_investigation", "validate_cause"])
PAID = ModelUsage("judge", 10_000, 501, 1234.5, calls=2, prompts="its", cached_tokens=9000)


class _Evaluator(evaluator_pb2_grpc.EvaluatorServiceServicer):
    def __init__(self, said: evaluator_pb2.EvaluationModelCall | SignalboxError) -> None:
        self._said = said

    async def CritiqueVerdict(self, _request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Approves, or fails."""
        call = await self._call(context)
        return evaluator_pb2.CritiqueVerdictResponse(outcome=evaluator_pb2.CRITIQUE_OUTCOME_APPROVED, model_call=call)

    async def EvaluateInvestigation(self, _request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Finds it final, or fails."""
        return evaluator_pb2.EvaluateInvestigationResponse(is_final=True, model_call=await self._call(context))

    async def ValidateCause(self, _request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Confirms, or fails."""
        return evaluator_pb2.ValidateCauseResponse(confirmed=True, model_call=await self._call(context))

    async def _call(self, context: Any) -> Any:
        if isinstance(self._said, SignalboxError):
            await context.abort_with_status(rpc_status.to_status(to_status(self._said)))
        return self._said


@asynccontextmanager
async def evaluator(said: evaluator_pb2.EvaluationModelCall | SignalboxError) -> AsyncIterator[EvaluatorClient]:
    server = grpc.aio.server()
    evaluator_pb2_grpc.add_EvaluatorServiceServicer_to_server(_Evaluator(said), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield EvaluatorClient(channel, timeout_s=60)
    finally:
        await server.stop(None)


async def ask(client: EvaluatorClient, method: str) -> None:
    if method == "validate_cause":
        await client.validate_cause(RUN, evaluator_pb2.ValidateCauseRequest())
        return
    others = {"last_word": False} if method == "evaluate_investigation" else {}
    await getattr(client, method)(
        RUN, sast_pb2.Finding(), sast_pb2.CodeSource(), evaluator_pb2.DraftVerdict(), [], **others
    )


@METHODS
async def test_the_judges_model_call_is_noted_with_its_time(method: str) -> None:
    with collecting() as calls:
        async with evaluator(CALL) as client:
            await ask(client, method)
    asked, model = calls
    assert asked["kind"] == "evaluator"
    assert 0 < model.pop("ended_at") <= time.time()
    assert model == {
        "kind": "model", "name": "judge", "service": "evaluator", "outcome": "ok", "elapsed_ms": 1234.568,
        "input_tokens": 70, "output_tokens": 9, "cached_tokens": 61, "offline_rules": False, "prompts": "its",
    }  # fmt: skip
    assert spend_of(calls, 2.0)["wall_time_s"] == 2.0  # the time is the evaluator call's, and counts once


@METHODS
async def test_each_of_the_judges_model_calls_is_noted_and_no_token_twice(method: str) -> None:
    twice = evaluator_pb2.EvaluationModelCall()
    twice.CopyFrom(CALL)
    twice.calls, twice.prompts = 2, ""
    with collecting() as calls:
        async with evaluator(twice) as client:
            await ask(client, method)
    assert [call["kind"] for call in calls] == ["evaluator", "model", "model"]
    # An evaluator of an earlier release does not say what it asked with.
    assert [call.get("prompts") for call in calls] == [None] * 3
    shares = [(call["input_tokens"], call["cached_tokens"], call["output_tokens"]) for call in calls[1:]]
    assert shares == [(35, 30, 4), (35, 31, 5)]
    spent = spend_of(calls, 0.0)
    assert (spent["model_calls"], spent["input_tokens"], spent["output_tokens"]) == (2, 70, 9)


@METHODS
@pytest.mark.parametrize(("failed", "comes_to"), [(ModelUnavailable, DependencyAway), (ModelUnusable, ServiceFailed)])
async def test_what_the_judge_was_paid_in_vain_is_noted(
    method: str, failed: type[SignalboxError], comes_to: type[SignalboxError]
) -> None:
    with collecting() as calls:
        async with evaluator(failed("no", metadata={"cause": "http_503", **PAID.metadata()})) as client:
            with pytest.raises(comes_to):
                await ask(client, method)
    model = [call for call in calls if call["kind"] == "model"]
    assert {(call["name"], call["outcome"], call["prompts"]) for call in model} == {("judge", "http_503", "its")}
    assert sum(call["cached_tokens"] for call in model) == 9000
    spent = spend_of(calls, 0.0)
    assert (spent["model_calls"], spent["input_tokens"], spent["output_tokens"]) == (2, 10_000, 501)


@METHODS
async def test_a_judge_that_says_nothing_of_its_cost_is_charged_with_nothing(method: str) -> None:
    with collecting() as calls:
        async with evaluator(ModelUnavailable("no", metadata={"cause": "connection"})) as client:
            with pytest.raises(DependencyAway):
                await ask(client, method)
    assert [call["kind"] for call in calls] == ["evaluator"]
