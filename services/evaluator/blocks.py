"""Functions and classes among the lines that were read, with the names that they use."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from services.evaluator.bank import SourceFile

# What is deeper within others is a part of the innermost of these.
MAX_NESTED = 16


@dataclass(frozen=True)
class Block:
    """A definition: its name, its lines, and every name on those that were read."""

    file: str
    name: str
    first_line: int
    last_line: int
    uses: frozenset[str]

    def holds(self, first_line: int, last_line: int) -> bool:
        """Whether it holds all lines of a range."""
        return self.first_line <= first_line and last_line <= self.last_line


def blocks_of(file: SourceFile) -> list[Block]:
    """Returns the definitions that hold lines of a file that were read; no two begin with the same line."""
    found = []
    # The last lines of those around.
    around: list[int] = []
    numbers = sorted(file.lines)
    for first_line, (name, last_line) in sorted(file.definitions.items()):
        around = [last for last in around if last >= first_line]
        if len(around) >= MAX_NESTED:
            continue
        around.append(last_line)
        within = numbers[bisect_left(numbers, first_line) : bisect_right(numbers, last_line)]
        # That it has a name is no use of what is called so elsewhere.
        uses = frozenset[str]().union(
            *(file.lines[number].names - ({name} if number == first_line else frozenset()) for number in within)
        )
        found.append(Block(file.path, name, first_line, last_line, uses))
    return found
