"""The code bank: every line that an investigation has read, by file and number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from services.evaluator.code_lines import CodeLine, full_allowance, read_region
from services.evaluator.dead_code import dead_lines
from services.evaluator.languages import language_of
from services.kit.lexing import Allowance, Lexing


@dataclass(frozen=True)
class Fragment:
    """Lines of a file at a commit, as a tool gave them; `symbol` is set when they are a definition found by name."""

    file: str
    first_line: int
    commit: str
    lines: tuple[str, ...]
    total_lines: int
    symbol: str = ""

    @property
    def last_line(self) -> int:
        """Number of the last line."""
        return self.first_line + len(self.lines) - 1


@dataclass
class SourceFile:
    """What is known of one file."""

    path: str
    allowance: Allowance = field(default_factory=full_allowance)
    total_lines: int = 0
    text: dict[int, str] = field(default_factory=dict)
    starts: dict[int, str] = field(default_factory=dict)

    def add(self, fragment: Fragment) -> None:
        """Adds a fragment; a line that was read before stays as it was."""
        self.total_lines = max(self.total_lines, fragment.total_lines, fragment.last_line)
        for number, line in enumerate(fragment.lines, fragment.first_line):
            self.text.setdefault(number, line)
        if fragment.symbol:
            self.starts.setdefault(fragment.first_line, fragment.symbol)

    def missing(self, first_line: int, last_line: int) -> list[int]:
        """Returns the numbers of the lines in a range that nobody has read."""
        return [number for number in range(first_line, last_line + 1) if number not in self.text]

    @cached_property
    def lines(self) -> Mapping[int, CodeLine]:
        """The lines, with code told from comments; read on first use, after all fragments are in."""
        found: dict[int, CodeLine] = {}
        for first_line, region in self._regions():
            anchored = first_line == 1 or first_line in self.starts
            lines = read_region(self.path, region, anchored=anchored, allowance=self.allowance)
            found.update(enumerate(lines, first_line))
        return found

    @cached_property
    def dead(self) -> frozenset[int]:
        """The numbers of the lines that were read and never run."""
        return dead_lines(self.lines, language_of(self.path).family)

    def _regions(self) -> Iterator[tuple[int, list[str]]]:
        """Yields runs of lines without a gap, parted where a definition starts that was found by name."""
        region: list[str] = []
        first_line = previous = 0
        for number in sorted(self.text):
            if region and (number != previous + 1 or number in self.starts):
                yield first_line, region
                region = []
            if not region:
                first_line = number
            region.append(self.text[number])
            previous = number
        if region:
            yield first_line, region


class CodeBank:
    """The fragments of one commit, joined by file; those of other commits are not evidence of anything here."""

    def __init__(self, fragments: Iterable[Fragment], commit: str, lexing: Lexing | None = None) -> None:
        self.commit = commit
        self._files: dict[str, SourceFile] = {}
        allowance = full_allowance(lexing)
        for fragment in fragments:
            if fragment.commit == commit:
                path = normal_path(fragment.file)
                self._files.setdefault(path, SourceFile(path, allowance)).add(fragment)

    def file(self, path: str) -> SourceFile | None:
        """Returns a file, or None when nothing of it was read."""
        return self._files.get(normal_path(path))

    @property
    def files(self) -> list[SourceFile]:
        """All files of which something was read."""
        return list(self._files.values())


def normal_path(path: str) -> str:
    """Returns a path as the bank spells it: without a leading `./`."""
    while path.startswith("./"):
        path = path[2:]
    return path
