"""What came of a run for its caller, beside its state, which says how the machine ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Self, cast

from signalbox.v1 import outcome_pb2


class Outcome(StrEnum):
    """The words of `signalbox.v1.Outcome`, as rows, spans, metrics, logs and people have them."""

    DONE = "done"
    PARTLY = "partly"
    NOT_DONE = "not_done"
    PREVIEWED = "previewed"
    DECLINED = "declined"
    ANSWERED = "answered"
    NOT_ANSWERED = "not_answered"
    CAUSE_FOUND = "cause_found"
    NO_CAUSE_FOUND = "no_cause_found"
    TRUE_POSITIVE = "true_positive"
    FALSE_POSITIVE = "false_positive"
    NO_VERDICT = "no_verdict"
    BLOCKED = "blocked"
    UNFINISHED = "unfinished"
    CANCELLED = "cancelled"

    @classmethod
    def of(cls, number: int) -> Self | None:
        """Returns what the contract has as a number; None for what is not known, or not to this release."""
        return next((outcome for outcome in cls if outcome.proto == number), None)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the outcome that somebody writes. Raises ValueError that lists those there are."""
        try:
            return cls(text.lower().replace("-", "_"))
        except ValueError as error:
            raise ValueError(f"{text!r} is not an outcome; there are: {', '.join(cls)}") from error

    @property
    def proto(self) -> outcome_pb2.Outcome:
        """The same as the contract has it."""
        return cast(outcome_pb2.Outcome, outcome_pb2.Outcome.Value(f"OUTCOME_{self.name}"))


# The caller has what the run was to bring: what success rates count.
REACHED = frozenset(
    {
        Outcome.DONE,
        Outcome.PREVIEWED,
        Outcome.ANSWERED,
        Outcome.CAUSE_FOUND,
        Outcome.TRUE_POSITIVE,
        Outcome.FALSE_POSITIVE,
    }
)
