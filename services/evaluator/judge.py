"""Asking the model: one question, one more chance for an answer that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from services.evaluator.answers import CauseAnswer, CritiqueAnswer, InvestigationAnswer
from services.evaluator.metrics import UNREADABLE_ANSWERS
from services.evaluator.prompt import again
from services.kit.models.records import UnreadableAnswer, read_text
from services.kit.models.usage import ModelUsage
from services.kit.models.verdict_model import Completion, ModelFailure
from services.kit.telemetry.logs import get_logger

AnswerT = TypeVar("AnswerT", InvestigationAnswer, CritiqueAnswer, CauseAnswer)
ATTEMPTS = 2
log = get_logger()


class Model(Protocol):
    """What the judge needs of services.kit.models.verdict_model.ModelClient."""

    async def complete(self, purpose: str, *, system: str, user: str, max_tokens: int = ...) -> Completion: ...


@dataclass(frozen=True)
class Judgement(Generic[AnswerT]):
    """What the model said; no answer when none of its attempts could be read, `problem` says why."""

    answer: AnswerT | None
    problem: str
    usage: ModelUsage


class Judge:
    """Puts cases to a model; what that takes says by which `prompts`, a digest."""

    def __init__(self, model: Model, *, max_tokens: int, prompts: str = "") -> None:
        self._model = model
        self._prompts = prompts
        self._max_tokens = max_tokens

    async def ask(self, purpose: str, system: str, case: str, kind: type[AnswerT]) -> Judgement[AnswerT]:
        """Asks about a case. Raises ModelUnavailable, ModelUnusable: they tell what answers before had cost."""
        completions: list[Completion] = []
        instructions, problem = system, ""
        for _ in range(ATTEMPTS):
            try:
                completion = await self._model.complete(
                    purpose, system=instructions, user=case, max_tokens=self._max_tokens
                )
            except ModelFailure as failed:
                spent = [*completions, failed.took] if failed.took else completions
                failed.metadata |= self._total(spent).metadata() if spent else {}
                raise
            completions.append(completion)
            try:
                return Judgement(read_text(kind, completion.text), "", self._total(completions))
            except UnreadableAnswer as error:
                problem = str(error)
                instructions = again(system, problem)
                UNREADABLE_ANSWERS.labels(purpose).inc()
                log.warning("unreadable answer", purpose=purpose, model=completion.model, problem=problem)
        return Judgement(None, problem, self._total(completions))

    def _total(self, completions: list[Completion]) -> ModelUsage:
        return ModelUsage(
            model=completions[-1].model,
            input_tokens=sum(completion.input_tokens for completion in completions),
            output_tokens=sum(completion.output_tokens for completion in completions),
            elapsed_ms=sum(completion.elapsed_ms for completion in completions),
            calls=len(completions),
            offline_rules=any(completion.offline_rules for completion in completions),
            prompts=self._prompts,
            cached_tokens=sum(completion.cached_tokens for completion in completions),
        )
