"""What the model may answer; everything else is no answer."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import Annotated, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from services.evaluator.draft import Verdict
from services.kit.models.fenced import unfenced
from services.kit.text.problems import problems_of

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class InvestigationAnswer(_Answer):
    """The model's word on an investigation."""

    is_final: bool
    verdict: Verdict
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)
    justification: Words
    exploration_gaps: tuple[Words, ...] = Field(max_length=50)

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.is_final == bool(self.exploration_gaps):
            raise ValueError("exploration_gaps must be empty exactly when is_final is true")
        return self


class Outcome(StrEnum):
    """The model's word on a verdict."""

    APPROVED = "approved"
    NEEDS_RESEARCH = "needs_research"
    NEEDS_REANALYSIS = "needs_reanalysis"


class CritiqueAnswer(_Answer):
    """The model's word on a verdict, with what to do about it."""

    outcome: Outcome
    missing: tuple[Words, ...] = Field(max_length=50)
    reason: Words

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.outcome is Outcome.APPROVED) == bool(self.missing):
            raise ValueError("missing must be empty exactly when the outcome is approved")
        return self


AnswerT = TypeVar("AnswerT", InvestigationAnswer, CritiqueAnswer)


class UnreadableAnswer(ValueError):
    """The text is not the JSON that was asked for; the message says in a few words why."""


def read_answer(kind: type[AnswerT], text: str) -> AnswerT:
    """Reads an answer. Raises UnreadableAnswer."""
    answer = unfenced(text)
    try:
        read = kind.model_validate_json(answer)
        # A key that stands twice says two things, and readers differ in which they hear.
        json.loads(answer, object_pairs_hook=_each_key_once)
    except ValidationError as error:
        first = problems_of(error)[0]
        # A model can make a name as long as it likes.
        raise UnreadableAnswer(str(first._replace(place=first.place[:100]))) from error
    return read


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    for key, times in Counter(key for key, _ in pairs).items():
        if times > 1:
            raise UnreadableAnswer(f"{key[:100]}: the key stands there {times} times")
    return dict(pairs)
