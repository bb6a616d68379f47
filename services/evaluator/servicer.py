"""EvaluatorService: proto to domain and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from signalbox.v1 import caller_pb2, evaluator_pb2, evaluator_pb2_grpc

from services.evaluator.answers import Outcome
from services.evaluator.causes import read_cause
from services.evaluator.citations import Problem
from services.evaluator.evaluator import Evaluator, Stage
from services.evaluator.requests import VERDICT_NUMBERS, read_case
from services.kit.identity.bearer import bearer_token
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.models.usage import ModelUsage

_STAGES = {
    Stage.MECHANICAL: evaluator_pb2.EVALUATION_STAGE_MECHANICAL,
    Stage.MODEL: evaluator_pb2.EVALUATION_STAGE_MODEL,
}
_OUTCOMES = {
    Outcome.APPROVED: evaluator_pb2.CRITIQUE_OUTCOME_APPROVED,
    Outcome.NEEDS_RESEARCH: evaluator_pb2.CRITIQUE_OUTCOME_NEEDS_RESEARCH,
    Outcome.NEEDS_REANALYSIS: evaluator_pb2.CRITIQUE_OUTCOME_NEEDS_REANALYSIS,
}
Context = grpc.aio.ServicerContext[Any, Any]


class EvaluatorServicer(evaluator_pb2_grpc.EvaluatorServiceServicer):
    """Serves EvaluatorService to runs, which show their token."""

    def __init__(self, verifier: RunTokenVerifier, evaluator: Evaluator) -> None:
        self._verifier = verifier
        self._evaluator = evaluator

    async def EvaluateInvestigation(
        self, request: evaluator_pb2.EvaluateInvestigationRequest, context: Context
    ) -> evaluator_pb2.EvaluateInvestigationResponse:
        """Judges an investigation. Raises what `CritiqueVerdict` does."""
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        case = read_case(request)
        await _take(context)
        evaluation = await self._evaluator.evaluate(case, last_word=request.last_word)
        return evaluator_pb2.EvaluateInvestigationResponse(
            is_final=evaluation.is_final,
            verdict=VERDICT_NUMBERS[evaluation.verdict],
            confidence=evaluation.confidence,
            justification=evaluation.justification,
            exploration_gaps=evaluation.gaps,
            problems=_problems(evaluation.problems),
            stage=_STAGES[evaluation.stage],
            model_call=_model_call(evaluation.usage),
        )

    async def CritiqueVerdict(
        self, request: evaluator_pb2.CritiqueVerdictRequest, context: Context
    ) -> evaluator_pb2.CritiqueVerdictResponse:
        """Judges a verdict. Raises Unauthenticated leaves, InvalidEvaluation, ModelUnavailable, ModelUnusable."""
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        case = read_case(request)
        await _take(context)
        critique = await self._evaluator.critique(case)
        return evaluator_pb2.CritiqueVerdictResponse(
            outcome=_OUTCOMES[critique.outcome],
            missing=critique.missing,
            problems=_problems(critique.problems),
            reason=critique.reason,
            stage=_STAGES[critique.stage],
            model_call=_model_call(critique.usage),
        )

    async def ValidateCause(
        self, request: evaluator_pb2.ValidateCauseRequest, context: Context
    ) -> evaluator_pb2.ValidateCauseResponse:
        """Judges the cause of an incident. Raises what `CritiqueVerdict` does."""
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        cause = read_cause(request)
        await _take(context)
        validation = await self._evaluator.validate_cause(cause)
        return evaluator_pb2.ValidateCauseResponse(
            confirmed=validation.confirmed,
            problems=validation.problems,
            stage=_STAGES[validation.stage],
            model_call=_model_call(validation.usage),
        )


async def _take(context: Context) -> None:
    """Sends the head of the answer, before which a channel repeats what is unavailable.

    From here on it would ask the model again behind the run's back: whether to wait is the run's to decide, and what it
    costs is its to know.
    """
    await context.send_initial_metadata(())


def _problems(problems: Iterable[Problem]) -> list[evaluator_pb2.EvidenceProblem]:
    return [
        evaluator_pb2.EvidenceProblem(index=problem.index, reason=problem.reason, message=problem.message)
        for problem in problems
    ]


def _model_call(usage: ModelUsage | None) -> evaluator_pb2.EvaluationModelCall | None:
    if usage is None:
        return None
    tokens = caller_pb2.TokenUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
    )
    return evaluator_pb2.EvaluationModelCall(
        model=usage.model,
        token_usage=tokens,
        elapsed_ms=usage.elapsed_ms,
        calls=usage.calls,
        offline_rules=usage.offline_rules,
        prompts=usage.prompts,
        cached_tokens=usage.cached_tokens,
    )
