"""A whole screening: the deterministic screen, then the model; without a verdict nothing is let through."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from services.guard.errors import GuardBroken, GuardUnavailable
from services.guard.metrics import FAILURES, MODEL_DURATION, SCREENINGS
from services.guard.prompt import ALLOW, BLOCK, Turn, asked_again, read_verdict, system_prompt, user_prompt
from services.guard.screen import DeterministicScreen, Reason, TextKind
from services.kit.errors import SignalboxError
from services.kit.models.usage import ModelUsage
from services.kit.models.verdict_model import Completion, ModelUnavailable, ModelUnusable
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import exemplar, from_zero, model_calls_from_zero

PURPOSE = "security_guard"
NO_VERDICT = "NONE"
# Looked at in 2 ms, and 6 at the worst; a thread for it would take 0.3 ms of CPU more.
SHORT_CHARACTERS = 300
# Between two attempts, where the model is away.
PAUSE_S = (0.2, 0.4)
TIMEOUT, CONNECTION, CUT, NONSENSE = "timeout", "connection", "cut", "nonsense"
log = get_logger()


class Stage(StrEnum):
    """The part of the guard that gave a verdict."""

    DETERMINISTIC = "deterministic"
    MODEL = "model"


class Model(Protocol):
    """What the screener needs of services.kit.models.verdict_model.ModelClient."""

    async def complete(self, purpose: str, *, system: str, user: str, max_tokens: int = ...) -> Completion: ...


@dataclass(frozen=True)
class ModelPolicy:
    """How the model is asked: the timeout is for all attempts, and what is not a verdict is asked for again.

    prompts: digest of the prompts that are in force.
    """

    name: str
    timeout_s: float
    max_tokens: int
    retries: int = 0
    prompts: str = ""


@dataclass(frozen=True)
class Screening:
    """The verdict on a text, and what it took; model and numbers are set when the model was asked."""

    allowed: bool
    reason: Reason
    stage: Stage
    model: str = ""
    model_elapsed_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    offline_rules: bool = False
    prompts: str = ""
    cached_tokens: int = 0


@dataclass
class _Asking:
    """What asking the model has taken so far, also when nothing comes of it."""

    model: str
    prompts: str = ""
    started: float = field(default_factory=time.perf_counter)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    offline_rules: bool = False
    calls: int = 0

    def answered(self, completion: Completion) -> None:
        self.model = completion.model
        self.offline_rules |= completion.offline_rules
        self.input_tokens += completion.input_tokens
        self.output_tokens += completion.output_tokens
        self.cached_tokens += completion.cached_tokens

    @property
    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    def verdict(self, *, allowed: bool) -> Screening:
        reason = Reason.ALLOWED if allowed else Reason.MODEL_BLOCKED
        return Screening(
            allowed,
            reason,
            Stage.MODEL,
            self.model,
            self.elapsed_ms,
            self.input_tokens,
            self.output_tokens,
            self.offline_rules,
            self.prompts,
            self.cached_tokens,
        )

    def metadata(self, cause: str) -> dict[str, str]:
        """What the error says, so that its caller can charge the run for the model's tokens."""
        usage = ModelUsage(
            self.model,
            self.input_tokens,
            self.output_tokens,
            self.elapsed_ms,
            calls=self.calls,
            prompts=self.prompts,
            cached_tokens=self.cached_tokens,
        )
        return {"cause": cause, **usage.metadata()}


class Screener:
    """Screens questions, goals and answers."""

    def __init__(self, screen: DeterministicScreen, model: Model, policy: ModelPolicy) -> None:
        self._screen = screen
        self._model = model
        self._policy = policy

    async def screen(
        self, text: str, subject: str, turns: Sequence[Turn] = (), kind: TextKind = TextKind.QUESTION
    ) -> Screening:
        """Returns the verdict on a text as it continues the turns. Raises GuardUnavailable, GuardBroken."""
        found = await self._find(text, subject, [turn.question for turn in turns], kind)
        if found is not None:
            return _counted(Screening(allowed=False, reason=found, stage=Stage.DETERMINISTIC), kind)
        asking = _Asking(self._policy.name, self._policy.prompts)
        system, user = system_prompt(subject, self._screen.restricted_tables, kind), user_prompt(text, turns, kind)
        label = NO_VERDICT
        try:
            screening = await self._ask(asking, system, user)
            label = _word(screening)
        except SignalboxError as error:
            FAILURES.labels(error.reason, error.metadata.get("cause", "")).inc()
            log.warning("no verdict", reason=error.reason, error=error.message)
            raise
        finally:
            MODEL_DURATION.labels(label).observe(asking.elapsed_ms / 1000, exemplar())
        return _counted(screening, kind)

    async def _find(self, text: str, subject: str, earlier: list[str], kind: TextKind) -> Reason | None:
        if len(text) + sum(map(len, earlier)) <= SHORT_CHARACTERS:
            return self._screen.find(text, subject, earlier, kind)
        # The longest texts take a tenth of a second, and others need not wait for them.
        return await asyncio.to_thread(self._screen.find, text, subject, earlier, kind)

    async def _ask(self, asking: _Asking, system: str, user: str) -> Screening:
        try:
            async with asyncio.timeout(self._policy.timeout_s):
                return await self._verdict(asking, system, user)
        except TimeoutError as error:
            raise GuardUnavailable(
                "the guard's model took too long; try again later", metadata=asking.metadata(TIMEOUT)
            ) from error
        except ModelUnavailable as error:
            cause = error.metadata.get("cause", "")
            raise GuardUnavailable(
                f"the guard's model did not answer ({cause}); try again later", metadata=asking.metadata(cause)
            ) from error
        except ModelUnusable as error:
            cause = error.metadata.get("cause", "")
            raise GuardBroken(
                f"the guard's model can't be used ({cause}); an operator has to look at it: {error.message}",
                metadata=asking.metadata(cause),
            ) from error

    async def _verdict(self, asking: _Asking, system: str, user: str) -> Screening:
        said, cause = user, NONSENSE
        for left in reversed(range(self._policy.retries + 1)):
            asking.calls += 1
            try:
                completion = await self._model.complete(
                    PURPOSE, system=system, user=said, max_tokens=self._policy.max_tokens
                )
            except ModelUnavailable:
                if not left:
                    raise
                await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - spreads load
                continue
            asking.answered(completion)
            verdict = read_verdict(completion.text) if completion.whole else None
            if verdict is not None:
                return asking.verdict(allowed=verdict == ALLOW)
            cause = NONSENSE if completion.whole else CUT
            said = asked_again(user, f"the answer was {completion.text[:80]!r}" if completion.whole else "it was cut")
            log.warning("the model gave no verdict", model=completion.model, cause=cause, answer=completion.text[:80])
        raise GuardBroken(_WHY[cause], metadata=asking.metadata(cause))


_WHY = {
    NONSENSE: "the guard's model says neither ALLOW nor BLOCK; an operator has to look at it",
    CUT: "the guard's model needs more tokens than SIGNALBOX_MODEL_MAX_TOKENS allows; an operator has to look at it",
}


def _counted(screening: Screening, kind: TextKind) -> Screening:
    verdict = _word(screening)
    SCREENINGS.labels(verdict, screening.reason, screening.stage).inc()
    log.info("screened", kind=kind, verdict=verdict, reason=screening.reason, stage=screening.stage)
    return screening


def _word(screening: Screening) -> str:
    return ALLOW if screening.allowed else BLOCK


for _reason in Reason:
    _model_said = _reason in (Reason.ALLOWED, Reason.MODEL_BLOCKED)
    _verdict = ALLOW if _reason is Reason.ALLOWED else BLOCK
    from_zero(SCREENINGS, [_verdict], [_reason], [Stage.MODEL if _model_said else Stage.DETERMINISTIC])
model_calls_from_zero(PURPOSE)
from_zero(MODEL_DURATION, [ALLOW, BLOCK, NO_VERDICT])
from_zero(FAILURES, [GuardUnavailable.reason], [TIMEOUT, CONNECTION])
from_zero(FAILURES, [GuardBroken.reason], [CUT, NONSENSE])
