"""The list of mutants, as `mutants.yaml` holds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

LIST = Path(__file__).with_name("mutants.yaml")


class MutantGone(Exception):
    """A mutant's line is not in its file, or more than once, so that nothing would be broken, or the wrong thing."""


@dataclass(frozen=True)
class Mutant:
    """A line of a file, what it becomes, what that would break, and the tests that must notice.

    `line` and `broken` are without their indentation. `after` is a line before it, where the same line stands twice.
    """

    file: str
    guards: str
    line: str
    broken: str
    tests: tuple[str, ...]
    after: str = ""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"{self.file}: {self.guards}"

    def apply(self, text: str) -> str:
        """Returns a file's text with the line broken. Raises MutantGone."""
        lines = text.splitlines(keepends=True)
        number = self._number([line.strip() for line in lines])
        indentation = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        lines[number] = f"{indentation}{self.broken}\n"
        return "".join(lines)

    def _number(self, stripped: list[str]) -> int:
        begin = 0
        if self.after:
            if stripped.count(self.after) != 1:
                raise MutantGone(f"{self.name}: the line before it is not there exactly once: {self.after}")
            begin = stripped.index(self.after)
        found = [number for number in range(begin, len(stripped)) if stripped[number] == self.line]
        if not found:
            raise MutantGone(f"{self.name}: the line is gone; say in {LIST.name} what has its place: {self.line}")
        if len(found) > 1 and not self.after:
            raise MutantGone(f"{self.name}: the line stands there {len(found)} times; name a line before it in `after`")
        return found[0]


def listed() -> list[Mutant]:
    """Returns all mutants. Raises TypeError and KeyError for an entry that is not one."""
    return [
        Mutant(**{**entry, "tests": tuple(entry["tests"].split())})
        for entry in yaml.load(LIST.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]
