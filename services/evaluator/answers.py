"""What the model may answer; everything else is no answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from services.evaluator.draft import Verdict

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


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


class CauseAnswer(_Answer):
    """The model's word on the cause of an incident."""

    bears_on_cause: bool
    time_fits: bool
    explains_symptom: bool
    problems: tuple[Words, ...] = Field(max_length=20)
    reason: Words

    @property
    def confirmed(self) -> bool:
        """Whether nothing speaks against it."""
        return self.bears_on_cause and self.time_fits and self.explains_symptom

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.confirmed == bool(self.problems):
            raise ValueError("problems must be empty exactly when all three are true")
        return self
