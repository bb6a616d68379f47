"""The code bank: every line that an investigation has read, by file and number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from signalbox.v1 import code_reading_pb2

from services.evaluator.code_lines import CodeLine

NO_DEFINITION = (0, 0)
BEFORE_READINGS = "they were read by a release that did not tell code from comments; fetch them again"


@dataclass(frozen=True)
class Fragment:
    """Lines of a file at a commit, as a tool gave them, with what it knows of them."""

    file: str
    first_line: int
    commit: str
    lines: tuple[str, ...]
    total_lines: int
    reading: code_reading_pb2.CodeReading | None

    @property
    def last_line(self) -> int:
        """Number of the last line."""
        return self.first_line + len(self.lines) - 1


@dataclass
class SourceFile:
    """What is known of one file. definitions: name and last line of each, by its first line."""

    path: str
    total_lines: int = 0
    lines: dict[int, CodeLine] = field(default_factory=dict)
    definitions: dict[int, tuple[str, int]] = field(default_factory=dict)

    def add(self, fragment: Fragment) -> None:
        """Adds a fragment; a line of which something was known before stays as it was."""
        self.total_lines = max(self.total_lines, fragment.total_lines, fragment.last_line)
        for number, line in enumerate(_lines(fragment), fragment.first_line):
            known = self.lines.get(number)
            if known is None or known.unread:
                self.lines[number] = line
        for each in fragment.reading.definitions if fragment.reading else ():
            self.definitions[each.first_line] = (each.name, each.last_line)

    def definition_around(self, number: int) -> tuple[int, int]:
        """Returns the first and last line of the innermost definition that holds a line, or NO_DEFINITION."""
        holding = ((first, last) for first, (_, last) in self.definitions.items() if first <= number <= last)
        return max(holding, default=NO_DEFINITION)

    def definitions_around(self) -> dict[int, tuple[int, int]]:
        """Returns the same of each line that was read."""
        found, around = {}, [NO_DEFINITION]
        coming = sorted(((first, last) for first, (_, last) in self.definitions.items()), reverse=True)
        for number in sorted(self.lines):
            while coming and coming[-1][0] <= number:
                around.append(coming.pop())
            # Of those that have not ended, the one that begins last.
            while len(around) > 1 and around[-1][1] < number:
                around.pop()
            found[number] = around[-1]
        return found

    def missing(self, first_line: int, last_line: int) -> list[int]:
        """Returns the numbers of the lines in a range that nobody has read."""
        return [number for number in range(first_line, last_line + 1) if number not in self.lines]


class CodeBank:
    """The fragments of one commit, joined by file; those of other commits are not evidence of anything here."""

    def __init__(self, fragments: Iterable[Fragment], commit: str) -> None:
        self.commit = commit
        self._files: dict[str, SourceFile] = {}
        for fragment in fragments:
            if fragment.commit == commit:
                path = normal_path(fragment.file)
                self._files.setdefault(path, SourceFile(path)).add(fragment)

    def file(self, path: str) -> SourceFile | None:
        """Returns a file, or None when nothing of it was read."""
        return self._files.get(normal_path(path))

    @property
    def files(self) -> list[SourceFile]:
        """All files of which something was read."""
        return list(self._files.values())


def _lines(fragment: Fragment) -> list[CodeLine]:
    reading = fragment.reading
    if reading is None or reading.unread:
        why = reading.unread if reading else BEFORE_READINGS
        return [CodeLine.not_read(line, why) for line in fragment.lines]
    return [CodeLine.read(line, known) for line, known in zip(fragment.lines, reading.lines, strict=True)]


def normal_path(path: str) -> str:
    """Returns a path as the bank spells it: without a leading `./`."""
    while path.startswith("./"):
        path = path[2:]
    return path
