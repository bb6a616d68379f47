"""What is judged: a finding, a drafted verdict on it, and the claims it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from services.evaluator.connections import Span


class Verdict(StrEnum):
    """What a finding turned out to be."""

    TRUE_POSITIVE = "TRUE_POSITIVE"
    FALSE_POSITIVE = "FALSE_POSITIVE"
    NEEDS_REVIEW = "NEEDS_REVIEW"


@dataclass(frozen=True)
class Claim:
    """A claim about code, with the lines it rests on."""

    text: str
    file: str
    first_line: int
    last_line: int
    commit: str
    quote: str

    @property
    def span(self) -> Span:
        """The cited lines."""
        return Span(self.file, self.first_line, self.last_line)

    @property
    def cited(self) -> str:
        """The cited lines, in words."""
        return f"{self.file}:{self.first_line}-{self.last_line}"


@dataclass(frozen=True)
class Draft:
    """A verdict that an agent proposes."""

    verdict: Verdict
    confidence: float
    justification: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Finding:
    """What a static analyser reported; `trace` and `related` are the places it names besides the flagged one."""

    rule_id: str
    cwe: str
    message: str
    location: Span
    trace: tuple[Span, ...] = ()
    related: tuple[Span, ...] = ()

    @property
    def places(self) -> tuple[Span, ...]:
        """Every place the analyser names, the flagged one first."""
        return (self.location, *self.trace, *self.related)
