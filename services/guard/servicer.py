"""GuardService: proto to domain and back."""

from __future__ import annotations

from typing import Any

import grpc
from signalbox.v1 import caller_pb2, guard_pb2, guard_pb2_grpc

from services.guard.errors import InvalidQuestion
from services.guard.prompt import Turn
from services.guard.screen import TextKind
from services.guard.screener import Screener, Screening, Stage
from services.kit.identity.bearer import bearer_token
from services.kit.identity.run_tokens import RunTokenVerifier

MAX_QUESTION_CHARACTERS = 4000
MAX_TURNS = 20
_STAGES = {
    Stage.DETERMINISTIC: guard_pb2.SCREEN_STAGE_DETERMINISTIC,
    Stage.MODEL: guard_pb2.SCREEN_STAGE_MODEL,
}

_KINDS = {
    guard_pb2.TEXT_KIND_QUESTION: TextKind.QUESTION,
    guard_pb2.TEXT_KIND_GOAL: TextKind.GOAL,
    guard_pb2.TEXT_KIND_ANSWER: TextKind.ANSWER,
    guard_pb2.TEXT_KIND_INCIDENT: TextKind.INCIDENT,
}


class GuardServicer(guard_pb2_grpc.GuardServiceServicer):
    """Serves GuardService; the caller comes from the run token."""

    def __init__(self, verifier: RunTokenVerifier, screener: Screener) -> None:
        self._verifier = verifier
        self._screener = screener

    async def Screen(
        self,
        request: guard_pb2.ScreenRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> guard_pb2.ScreenResponse:
        """Screens a text. Raises Unauthenticated leaves, InvalidQuestion, GuardUnavailable and GuardBroken."""
        claims = self._verifier.verify(bearer_token(context.invocation_metadata()))
        if not request.question:
            raise InvalidQuestion("must not be empty")
        _check_length(request.question, "question")
        turns = _turns(request)
        # A channel repeats what is unavailable until it has seen the head of an answer. From here on it would ask the
        # model again behind the run's back: whether to wait is the run's to decide, and what it costs is its to know.
        await context.send_initial_metadata(())
        # A kind of a later release is judged as a question, and the response says so.
        kind = request.kind if request.kind in _KINDS else guard_pb2.TEXT_KIND_QUESTION
        screening = await self._screener.screen(request.question, claims.caller.subject, turns, _KINDS[kind])
        return _response(screening, kind)


def _turns(request: guard_pb2.ScreenRequest) -> list[Turn]:
    if len(request.turns) > MAX_TURNS:
        raise InvalidQuestion(f"must be at most {MAX_TURNS}", "turns")
    for index, turn in enumerate(request.turns):
        _check_length(turn.question, f"turns[{index}].question")
        _check_length(turn.answer, f"turns[{index}].answer")
    return [Turn(turn.question, turn.answer) for turn in request.turns]


def _check_length(text: str, field: str) -> None:
    if len(text) > MAX_QUESTION_CHARACTERS:
        raise InvalidQuestion(f"must have at most {MAX_QUESTION_CHARACTERS} characters", field)


def _response(screening: Screening, kind: guard_pb2.TextKind) -> guard_pb2.ScreenResponse:
    usage = caller_pb2.TokenUsage(
        input_tokens=screening.input_tokens,
        output_tokens=screening.output_tokens,
        total_tokens=screening.input_tokens + screening.output_tokens,
    )
    verdict = guard_pb2.SCREEN_VERDICT_ALLOW if screening.allowed else guard_pb2.SCREEN_VERDICT_BLOCK
    return guard_pb2.ScreenResponse(
        verdict=verdict,
        reason=screening.reason,
        stage=_STAGES[screening.stage],
        token_usage=usage,
        model=screening.model,
        model_elapsed_ms=screening.model_elapsed_ms,
        kind=kind,
        offline_rules=screening.offline_rules,
        prompts=screening.prompts,
        cached_tokens=screening.cached_tokens,
    )
