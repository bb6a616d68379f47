"""What a review comes to: a verdict, the lines it rests on, and what should be read where it is not settled."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

TRUE_POSITIVE: Final = "TRUE_POSITIVE"
FALSE_POSITIVE: Final = "FALSE_POSITIVE"
NEEDS_REVIEW: Final = "NEEDS_REVIEW"


@dataclass(frozen=True)
class OpinionClaim:
    """What lines show; the code that it is about stands in it between backticks, and is `node`."""

    says: str
    first_line: int
    last_line: int
    node: ast.AST = field(compare=False, repr=False)


@dataclass(frozen=True)
class Need:
    """Code to read: `lines` of a file from `line` on, the `callers` of a function, or the `definition` of a name."""

    kind: str
    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"lines of {self.name}:{self.line}" if self.kind == "lines" else f"{self.kind} of {self.name}"


@dataclass(frozen=True)
class Opinion:
    """A verdict and why; claims are about the flagged file, needs are there only for what is not settled."""

    verdict: str
    why: str
    claims: tuple[OpinionClaim, ...] = ()
    needs: tuple[Need, ...] = ()


def undecided(why: str, *needs: Need) -> Opinion:
    """Leaves a finding to others, and says what they should read."""
    return Opinion(NEEDS_REVIEW, why, needs=tuple(dict.fromkeys(needs)))
