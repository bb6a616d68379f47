"""Asking the evaluator. It is never taken for an approval that it did not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

import grpc
from signalbox.v1 import evaluator_pb2, evaluator_pb2_grpc, sast_pb2

from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.models.usage import ModelUsage
from services.kit.telemetry.names import AUDIENCE_EVALUATOR
from services.runtime.calls.breaker import Breaker
from services.runtime.calls.dependency import failure_of
from services.runtime.calls.model_usage import note_usage, note_usage_in_vain
from services.runtime.errors import DependencyAway, ServiceFailed
from services.runtime.routing.calls import noting
from services.runtime.routing.run_context import RunContext

ResponseT = TypeVar("ResponseT")
EVALUATOR = "evaluator"
JUDGE = "judge the verdict"
# It asks its model once more where an answer can't be read.
MOST_MODEL_CALLS = 2


class EvaluatorClient:
    """Asks the evaluator service."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float) -> None:
        self._stub = evaluator_pb2_grpc.EvaluatorServiceStub(channel)
        self._breaker = Breaker(EVALUATOR)
        self._timeout_s = timeout_s

    async def evaluate_investigation(
        self,
        run: RunContext,
        finding: sast_pb2.Finding,
        source: sast_pb2.CodeSource,
        draft: evaluator_pb2.DraftVerdict,
        code_bank: Sequence[sast_pb2.CodeFragment],
        *,
        last_word: bool,
    ) -> evaluator_pb2.EvaluateInvestigationResponse:
        """Returns whether a verdict stands, and what is missing when not. Raises DependencyAway, ServiceFailed."""
        request = evaluator_pb2.EvaluateInvestigationRequest(
            finding=finding, source=source, draft=draft, code_bank=code_bank, last_word=last_word
        )
        with noting("evaluator", "evaluate_investigation") as call:
            answer = await self._asked(run, self._stub.EvaluateInvestigation, request)
            known = answer.verdict in sast_pb2.Verdict.values() and 0 <= answer.confidence <= 1
            said = "final" if answer.is_final else "not_final"
            call["outcome"] = said if known else ServiceFailed.reason
        _note_model_call(answer.model_call)
        return answer if known else _misanswered()

    async def critique_verdict(
        self,
        run: RunContext,
        finding: sast_pb2.Finding,
        source: sast_pb2.CodeSource,
        draft: evaluator_pb2.DraftVerdict,
        code_bank: Sequence[sast_pb2.CodeFragment],
    ) -> evaluator_pb2.CritiqueVerdictResponse:
        """Returns whether a verdict is approved, or what it lacks. Raises DependencyAway, ServiceFailed."""
        request = evaluator_pb2.CritiqueVerdictRequest(finding=finding, source=source, draft=draft, code_bank=code_bank)
        with noting("evaluator", "critique_verdict") as call:
            answer = await self._asked(run, self._stub.CritiqueVerdict, request)
            known = answer.outcome in evaluator_pb2.CritiqueOutcome.values()
            call["outcome"] = outcome_word(answer.outcome) if known else ServiceFailed.reason
        _note_model_call(answer.model_call)
        return answer if known else _misanswered()

    async def validate_cause(
        self, run: RunContext, request: evaluator_pb2.ValidateCauseRequest
    ) -> evaluator_pb2.ValidateCauseResponse:
        """Returns whether evidence shows the cause of an incident. Raises DependencyAway, ServiceFailed.

        An evaluator of an earlier release can't say, and is waited for like one that is away.
        """
        with noting("evaluator", "validate_cause") as call:
            answer = await self._asked(run, self._stub.ValidateCause, request)
            call["outcome"] = "confirmed" if answer.confirmed else "refuted"
        _note_model_call(answer.model_call)
        return answer

    async def _asked(self, run: RunContext, method: Callable[..., Awaitable[ResponseT]], request: object) -> ResponseT:
        metadata = [bearer_metadata(run.token(AUDIENCE_EVALUATOR))]
        with self._breaker.passing():
            try:
                return await method(request, timeout=self._timeout_s, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                detail = error_detail(error)
                note_usage_in_vain(EVALUATOR, detail)
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    raise DependencyAway(EVALUATOR, "UNIMPLEMENTED") from error
                raise failure_of(detail, EVALUATOR, JUDGE) from error


def outcome_word(number: int) -> str:
    """Returns `approved`, `needs_research` or `needs_reanalysis`, which an unspecified outcome counts as."""
    name = evaluator_pb2.CritiqueOutcome.Name(number)
    word = name.removeprefix("CRITIQUE_OUTCOME_").lower()
    return "needs_reanalysis" if word == "unspecified" else word


def _misanswered() -> NoReturn:
    """Refuses an answer that this release does not know, or that is out of bounds. Raises ServiceFailed."""
    raise ServiceFailed(
        f"the {EVALUATOR} was asked to {JUDGE}, and its answer can't be read", metadata={"service": EVALUATOR}
    )


def _note_model_call(made: evaluator_pb2.EvaluationModelCall) -> None:
    if made.model:
        tokens = made.token_usage
        usage = ModelUsage(
            made.model,
            tokens.input_tokens,
            tokens.output_tokens,
            made.elapsed_ms,
            made.calls,
            made.offline_rules,
            made.prompts,
            made.cached_tokens,
        )
        note_usage(EVALUATOR, usage)
