"""Asking the guard. It gives a verdict or it gives none, and without one nothing is let through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.kit.errors import ErrorDetail, error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.models.usage import ModelUsage, usage_told
from services.kit.telemetry.names import AUDIENCE_GUARD
from services.runtime.calls.breaker import Breaker
from services.runtime.calls.dependency import is_away
from services.runtime.calls.model_usage import note_usage, note_usage_in_vain
from services.runtime.errors import DependencyAway, GuardFailed
from services.runtime.routing.calls import OK, left_s, noting
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.storable import presentable
from services.runtime.routing.waiting import why_away

GUARD = "guard"
# What a guard of the last release said with BLOCK when it had no verdict.
NO_VERDICT = "guard_unavailable"
# What its block of a goal or an answer comes to: it judges all texts as questions.
OTHER_KIND = "judged_as_a_question"
NO_CONNECTION = "connection"
# Two calls of the guard's model a minute, as long as it gives no verdict; with a repeat under way they are three.
SECONDS_A_CALL: Final = 30.0
VERDICTS: Final = (guard_pb2.SCREEN_VERDICT_ALLOW, guard_pb2.SCREEN_VERDICT_BLOCK)
QUESTION: Final = guard_pb2.TEXT_KIND_QUESTION


@dataclass(frozen=True)
class Screening:
    """The guard's verdict on a text."""

    allowed: bool
    reason: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    model_elapsed_ms: float = 0.0
    offline_rules: bool = False
    prompts: str = ""
    cached_tokens: int = 0


class GuardClient:
    """Asks the guard service."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float) -> None:
        self._stub = guard_pb2_grpc.GuardServiceStub(channel)
        self._timeout_s = timeout_s
        self._breaker = Breaker(GUARD)

    async def screen(
        self,
        run: RunContext,
        text: str,
        turns: Sequence[guard_pb2.ScreenedTurn] = (),
        kind: guard_pb2.TextKind = QUESTION,
    ) -> Screening:
        """Returns the verdict on a text as it continues the turns. Raises DependencyAway, GuardFailed.

        A guard that gives no verdict is waited for like one that is away. But it did answer, so the breaker stays
        closed: what one text does to the guard's model holds up no other. What its endpoint refuses is a no.
        """
        request = guard_pb2.ScreenRequest(question=text, turns=turns, kind=kind)
        try:
            with self._breaker.passing():
                return await self._screen(run, request)
        except GuardFailed as failed:
            if failed.is_refusal:
                raise
            away = DependencyAway(GUARD, failed.cause)
            away.least_wait_s = failed.least_wait_s
            raise away from failed

    async def _screen(self, run: RunContext, request: guard_pb2.ScreenRequest) -> Screening:
        timeout_s = min(self._timeout_s, left_s())
        try:
            with noting(GUARD, "screen") as call:
                answer = await self._stub.Screen(
                    request,
                    timeout=timeout_s,
                    metadata=[bearer_metadata(run.token(AUDIENCE_GUARD))],
                )
                reason = presentable(answer.reason)
                call["outcome"] = reason or "unspecified"
        except grpc.aio.AioRpcError as error:
            detail = error_detail(error)
            note_usage_in_vain(GUARD, detail)
            if detail.code == grpc.StatusCode.DEADLINE_EXCEEDED and timeout_s < self._timeout_s:
                # The run's own end came first, perhaps soon: what it has waited for tells more of the guard.
                raise DependencyAway(GUARD, why_away(run.attempts, GUARD) or detail.reason) from error
            raise no_verdict(detail) from error
        screening = Screening(
            answer.verdict == guard_pb2.SCREEN_VERDICT_ALLOW,
            reason,
            answer.model,
            answer.token_usage.input_tokens,
            answer.token_usage.output_tokens,
            answer.model_elapsed_ms,
            answer.offline_rules,
            answer.prompts,
            answer.cached_tokens,
        )
        unscreened = reason == NO_VERDICT
        if screening.model:
            note_usage(GUARD, _usage(screening), NO_VERDICT if unscreened else OK)
        if unscreened:
            raise DependencyAway(GUARD, NO_VERDICT)
        if answer.verdict not in VERDICTS:
            raise GuardFailed(NO_VERDICT, "the guard gave no verdict that this release knows")
        if not screening.allowed and request.kind != QUESTION and answer.kind != request.kind:
            raise GuardFailed(OTHER_KIND, "a guard of an earlier release judged it as a question to a database")
        call["holds"] = screening.allowed
        return screening


def no_verdict(detail: ErrorDetail) -> DependencyAway | GuardFailed:
    """Returns the error of a screening that failed: a wait can mend it, or it takes an operator."""
    cause = detail.metadata.get("cause") or detail.reason
    made = DependencyAway(GUARD, cause) if is_away(detail) else GuardFailed(cause, detail.message)
    usage = usage_told(detail.metadata)
    # Who does not even connect costs nothing.
    if usage and cause != NO_CONNECTION:
        made.least_wait_s = SECONDS_A_CALL * max(1, usage.calls)
    return made


def _usage(screening: Screening) -> ModelUsage:
    return ModelUsage(
        screening.model,
        screening.input_tokens,
        screening.output_tokens,
        screening.model_elapsed_ms,
        offline_rules=screening.offline_rules,
        prompts=screening.prompts,
        cached_tokens=screening.cached_tokens,
    )
