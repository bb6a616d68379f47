"""What the reasoning comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TRUE_POSITIVE: Final = "TRUE_POSITIVE"
FALSE_POSITIVE: Final = "FALSE_POSITIVE"
NEEDS_REVIEW: Final = "NEEDS_REVIEW"


@dataclass(frozen=True)
class Claim:
    """What lines show."""

    text: str
    file: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class Need:
    """Code that would settle it: the lines at a place, the callers of a function, or a symbol's definition."""

    kind: str
    name: str
    line: int = 0

    def __str__(self) -> str:
        if self.kind == "lines":
            return f"read {self.name} around line {self.line}"
        return f"find {self.kind} of {self.name}"


@dataclass(frozen=True)
class Opinion:
    """A verdict, why, and what is missing when it is not settled."""

    verdict: str
    confidence: float
    justification: str
    claims: tuple[Claim, ...] = ()
    needs: tuple[Need, ...] = ()


def undecided(why: str, *needs: Need) -> Opinion:
    """Says that the code shown does not settle it."""
    return Opinion(NEEDS_REVIEW, 0.3, why, (), tuple(dict.fromkeys(needs)))
