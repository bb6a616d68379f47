"""What is judged: a finding, a drafted verdict on it, and the claims it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from services.evaluator.bank import normal_path
from services.evaluator.connections import Span

MAX_FLAGGED_LINES = 60


class Verdict(StrEnum):
    """What a finding turned out to be."""

    TRUE_POSITIVE = "TRUE_POSITIVE"
    FALSE_POSITIVE = "FALSE_POSITIVE"
    NEEDS_REVIEW = "NEEDS_REVIEW"


@dataclass(frozen=True)
class Evidence:
    """A claim about code, with the lines it rests on."""

    claim: str
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
    evidence: tuple[Evidence, ...]


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
        return (self._flagged, *self.trace, *self.related)

    def flagged_lines(self, path: str) -> frozenset[int]:
        """The flagged lines, as far as they are lines of a file."""
        if normal_path(path) != normal_path(self.location.file):
            return frozenset()
        return frozenset(range(self._flagged.first_line, self._flagged.last_line + 1))

    @property
    def _flagged(self) -> Span:
        first = self.location.first_line
        # A result on a whole file flags its beginning, not everything in it.
        return replace(self.location, last_line=min(self.location.last_line, first + MAX_FLAGGED_LINES - 1))
