"""What came of a finding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a finding turned out to be."""

    TRUE_POSITIVE = "TRUE_POSITIVE"
    FALSE_POSITIVE = "FALSE_POSITIVE"
    NEEDS_REVIEW = "NEEDS_REVIEW"


class Source(StrEnum):
    """Who said so."""

    RUN = "run"
    EARLIER = "earlier_verdict"
    PERSON = "person"
    KNOWN = "known_false_positive"
    LOG = "log"


@dataclass(frozen=True)
class Evidence:
    """A claim about code, with the lines it rests on."""

    claim: str
    file: str
    first_line: int
    last_line: int
    commit: str
    quote: str = ""


@dataclass(frozen=True)
class Outcome:
    """The verdict on a finding; `error` is set when its run failed, and the verdict is then NEEDS_REVIEW.

    confidence: how often such verdicts are right, 0 to 1; None unless that was measured for the models behind it.
    decided_by: what made it where no language model did, in words; else empty.
    read, open_question: of a finding that was not settled, the lines that were read, and what would have to be known.
    rules: a digest of what decided: agent, policy, prompts. notes: what of the log was not used, as it can't be right.
    """

    fingerprint: str
    verdict: Verdict
    confidence: float | None
    justification: str
    evidence: tuple[Evidence, ...] = ()
    stop_reason: str = ""
    source: Source = Source.RUN
    run_id: str = ""
    error: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    iterations: int = 0
    wall_time_s: float = 0.0
    decided_by: str = ""
    read: tuple[str, ...] = ()
    open_question: str = ""
    rules: str = ""
    notes: tuple[str, ...] = ()


def verdict_of_all(verdicts: Collection[Verdict]) -> Verdict:
    """Returns the verdict on a result from those on its places: true if it is at one of them, false if at none."""
    if Verdict.TRUE_POSITIVE in verdicts:
        return Verdict.TRUE_POSITIVE
    false = set(verdicts) == {Verdict.FALSE_POSITIVE}
    return Verdict.FALSE_POSITIVE if false else Verdict.NEEDS_REVIEW
