"""What the reasoning comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TRUE_POSITIVE: Final = "TRUE_POSITIVE"
FALSE_POSITIVE: Final = "FALSE_POSITIVE"
NEEDS_REVIEW: Final = "NEEDS_REVIEW"
# From `python -m tests.bench.bench_verdicts`; what is not settled claims nothing.
CONFIDENCE: Final = {TRUE_POSITIVE: 0.95, FALSE_POSITIVE: 0.97, NEEDS_REVIEW: 0.0}


@dataclass(frozen=True)
class Evidence:
    """A claim about code, with the lines it rests on."""

    claim: str
    file: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class Need:
    """Code that would settle it: a whole file, the lines at a place, a function's callers, or a symbol's definition."""

    kind: str
    name: str
    line: int = 0

    def __str__(self) -> str:
        if self.kind == "file":
            return f"read all of {self.name}"
        if self.kind == "lines":
            return f"read {self.name} around line {self.line}"
        return f"find {self.kind} of {self.name}"


@dataclass(frozen=True)
class Opinion:
    """A verdict, why, and what is missing when it is not settled."""

    verdict: str
    justification: str
    evidence: tuple[Evidence, ...] = ()
    needs: tuple[Need, ...] = ()

    @property
    def confidence(self) -> float:
        """How often such a verdict is right, 0 to 1: measured on code that no rule here was written on."""
        return CONFIDENCE[self.verdict]


def undecided(why: str, *needs: Need) -> Opinion:
    """Says that the code shown does not settle it."""
    return Opinion(NEEDS_REVIEW, why, (), tuple(dict.fromkeys(needs)))
