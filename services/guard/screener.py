"""A whole screening: the deterministic screen, then the model; closed when in doubt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from services.guard.metrics import MODEL_DURATION, SCREENINGS
from services.guard.prompt import ALLOW, BLOCK, read_verdict, system_prompt, user_prompt
from services.guard.screen import DeterministicScreen, Reason
from services.kit.logs import get_logger
from services.kit.metrics import exemplar
from services.kit.model import Completion

PURPOSE = "security_guard"
log = get_logger()


class Stage(StrEnum):
    """The part of the guard that gave a verdict."""

    DETERMINISTIC = "deterministic"
    MODEL = "model"


class Model(Protocol):
    """What the screener needs of services.kit.model.ModelClient."""

    async def complete(self, purpose: str, *, system: str, user: str, max_tokens: int = ...) -> Completion: ...


@dataclass(frozen=True)
class ModelPolicy:
    """How the model is asked."""

    name: str
    timeout_s: float
    max_tokens: int


@dataclass(frozen=True)
class Screening:
    """The verdict on a question, and what it took; `completion` is set when the model answered."""

    allowed: bool
    reason: Reason
    stage: Stage
    model: str = ""
    model_elapsed_ms: float = 0.0
    completion: Completion | None = None


class Screener:
    """Screens questions."""

    def __init__(self, restricted_tables: Sequence[str], model: Model, policy: ModelPolicy) -> None:
        self._tables = tuple(restricted_tables)
        self._screen = DeterministicScreen(restricted_tables)
        self._model = model
        self._policy = policy

    async def screen(self, question: str, subject: str) -> Screening:
        """Returns the verdict; a failure inside is a BLOCK with reason `guard_unavailable`, never an exception."""
        start = time.perf_counter()
        asked = False
        try:
            found = self._screen.find(question, subject)
            if found is None:
                asked = True
                screening = await self._ask(question, subject, start)
            else:
                screening = Screening(allowed=False, reason=found, stage=Stage.DETERMINISTIC)
        except Exception as error:  # fail closed, whatever it is; the log says what it was
            log.warning("screening failed", exc_info=error)
            screening = self._unavailable(start, asked=asked)
        verdict = ALLOW if screening.allowed else BLOCK
        SCREENINGS.labels(verdict, screening.reason, screening.stage).inc()
        if asked:
            MODEL_DURATION.labels(verdict).observe(screening.model_elapsed_ms / 1000, exemplar())
        log.info("screened", verdict=verdict, reason=screening.reason, stage=screening.stage)
        return screening

    async def _ask(self, question: str, subject: str, start: float) -> Screening:
        async with asyncio.timeout(self._policy.timeout_s):
            completion = await self._model.complete(
                PURPOSE,
                system=system_prompt(subject, self._tables),
                user=user_prompt(question),
                max_tokens=self._policy.max_tokens,
            )
        verdict = read_verdict(completion.text)
        reason = {ALLOW: Reason.ALLOWED, BLOCK: Reason.MODEL_BLOCKED, None: Reason.GUARD_UNAVAILABLE}[verdict]
        if verdict is None:
            log.warning("the model gave no verdict", model=completion.model, answer=completion.text[:80])
        return Screening(
            allowed=verdict == ALLOW,
            reason=reason,
            stage=Stage.MODEL,
            model=completion.model,
            model_elapsed_ms=_elapsed_ms(start),
            completion=completion,
        )

    def _unavailable(self, start: float, *, asked: bool) -> Screening:
        return Screening(
            allowed=False,
            reason=Reason.GUARD_UNAVAILABLE,
            stage=Stage.MODEL if asked else Stage.DETERMINISTIC,
            model=self._policy.name if asked else "",
            model_elapsed_ms=_elapsed_ms(start) if asked else 0.0,
        )


def _elapsed_ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000
