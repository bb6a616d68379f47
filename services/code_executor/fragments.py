"""Pieces of files: what a tool gives, and what evidence cites."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from services.code_executor.documents import Document
from services.code_executor.limits import Limits
from services.code_executor.paths import show_path
from services.code_executor.symbols import Definition

# Characters that would move the reader's eye or the terminal's cursor. Tab is fine.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Fragment:
    """Lines first_line to last_line, 1-based and inclusive, of a file at a commit.

    cut_lines: numbers of lines that were too long and end in an ellipsis. enclosing: the function or class around them.
    """

    document: Document
    first_line: int
    last_line: int
    lines: tuple[str, ...]
    cut_lines: tuple[int, ...] = ()
    enclosing: Definition | None = None

    @property
    def language(self) -> str:
        """Name of the file's language; empty when it is not known."""
        return self.document.language.name if self.document.language else ""

    @property
    def sha256(self) -> str:
        """Digest of the lines, each ended by a line feed, in UTF-8."""
        return hashlib.sha256("".join(line + "\n" for line in self.lines).encode()).hexdigest()

    def as_data(self, commit: str) -> dict[str, Any]:
        """Returns the fragment for machines."""
        data: dict[str, Any] = {
            "path": self.document.entry.path,
            "commit": commit,
            "blob": self.document.entry.blob,
            "language": self.language,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "total_lines": len(self.document.lines),
            "lines": list(self.lines),
            "sha256": self.sha256,
            "cut_lines": list(self.cut_lines),
            "notes": list(self.document.notes),
        }
        if self.enclosing:
            data["enclosing"] = self.enclosing.as_data()
        return data

    def as_text(self, commit: str) -> str:
        """Returns the fragment for the model: a heading, then every line with its number."""
        about = ", ".join(filter(None, [self.language, f"commit {commit[:12]}"]))
        span = f"lines {self.first_line}-{self.last_line} of {len(self.document.lines)}"
        heading = [f"{show_path(self.document.entry.path)} {span} ({about})"]
        if self.enclosing:
            heading.append(f"inside {self.enclosing.kind} {self.enclosing.qualified_name}, {self.enclosing.span}")
        heading += [f"note: {note}" for note in self.document.notes]
        width = len(str(self.last_line))
        numbered = (f"{number:>{width}} | {show_line(line)}" for number, line in enumerate(self.lines, self.first_line))
        return "\n".join([*heading, *numbered])


def show_line(line: str) -> str:
    """Returns a line fit to print: what does not show stands as its code point."""
    return _UNSEEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", line)


class Budget:
    """What is left of a result's lines and characters; takes fragments out of files until it is spent."""

    def __init__(self, limits: Limits) -> None:
        self._lines = limits.max_lines
        self._chars = limits.max_chars
        self._line_chars = limits.line_chars
        self.cuts: list[str] = []

    def cut(self, what: str) -> None:
        """Notes that something was left out, in words for the model."""
        self.cuts.append(what)

    def take(self, document: Document, first: int, last: int, enclosing: Definition | None = None) -> Fragment | None:
        """Takes lines first to last, as many as the budget allows, or None when it allows none."""
        last = min(last, len(document.lines))
        lines: list[str] = []
        cut_lines: list[int] = []
        for number in range(first, last + 1):
            line = document.lines[number - 1]
            if len(line) > self._line_chars:
                line = line[: self._line_chars] + "…"
                cut_lines.append(number)
            if self._lines < 1 or self._chars < len(line):
                self._say_cut(document, last, first + len(lines))
                break
            self._lines -= 1
            self._chars -= len(line) + 1
            lines.append(line)
        if cut_lines:
            self.cut(
                f"lines longer than {self._line_chars} characters are cut short in {show_path(document.entry.path)}"
            )
        if not lines:
            return None
        return Fragment(document, first, first + len(lines) - 1, tuple(lines), tuple(cut_lines), enclosing)

    def _say_cut(self, document: Document, last: int, reached: int) -> None:
        path = show_path(document.entry.path)
        self.cut(f"lines {reached}-{last} of {path} are left out; read_file gives them with first_line {reached}")


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins ranges of lines that touch or overlap."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
