"""GuardService: proto to domain and back."""

from __future__ import annotations

from typing import Any

import grpc
from signalbox.v1 import caller_pb2, guard_pb2, guard_pb2_grpc

from services.guard.errors import InvalidQuestion
from services.guard.screener import Screener, Screening, Stage
from services.kit.identity import RunTokenVerifier, bearer_token

MAX_QUESTION_CHARACTERS = 4000
_STAGES = {
    Stage.DETERMINISTIC: guard_pb2.SCREEN_STAGE_DETERMINISTIC,
    Stage.MODEL: guard_pb2.SCREEN_STAGE_MODEL,
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
        """Screens a question. Raises Unauthenticated leaves and InvalidQuestion."""
        claims = self._verifier.verify(bearer_token(context.invocation_metadata()))
        if not request.question:
            raise InvalidQuestion("must not be empty")
        if len(request.question) > MAX_QUESTION_CHARACTERS:
            raise InvalidQuestion(f"must have at most {MAX_QUESTION_CHARACTERS} characters")
        return _response(await self._screener.screen(request.question, claims.caller.subject))


def _response(screening: Screening) -> guard_pb2.ScreenResponse:
    completion = screening.completion
    usage = caller_pb2.TokenUsage()
    if completion is not None:
        usage = caller_pb2.TokenUsage(
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            total_tokens=completion.input_tokens + completion.output_tokens,
        )
    verdict = guard_pb2.SCREEN_VERDICT_ALLOW if screening.allowed else guard_pb2.SCREEN_VERDICT_BLOCK
    return guard_pb2.ScreenResponse(
        verdict=verdict,
        reason=screening.reason,
        stage=_STAGES[screening.stage],
        token_usage=usage,
        model=screening.model,
        model_elapsed_ms=screening.model_elapsed_ms,
    )
