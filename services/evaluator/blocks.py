"""Functions and classes among the lines that were read, found without a parser: pieces of files rarely parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.evaluator.bank import SourceFile
from services.evaluator.code_lines import CodeLine
from services.evaluator.extents import last_lines
from services.evaluator.languages import Family, language_of

_NAME = r"(?<![\w$])([^\W\d][\w$]*|\$[\w$]*)"
_KEYWORD = re.compile(
    r"\b(?:def|class|function\*?|func|fn|fun|sub|interface|struct|trait|enum|module|object|record|impl|proc|macro)"
    rf"\s+(?:\([^()]*\)\s*)?(?:self\.)?{_NAME}"
)
_ASSIGNED = re.compile(rf"{_NAME}\s*[:=]\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]{{1,80}})?=>|{_NAME}\s*=>)")
_TYPED = re.compile(r"(?!(?:return|else|throw|new|case)\b)[\w:<>\[\],&*~@\s]*")
_NAME_CHARS, _NAME_START = re.compile(r"[\w:~]*"), re.compile(r"[A-Za-z_~]")
_CONTROL = frozenset(
    {"if", "for", "foreach", "while", "switch", "catch", "return", "sizeof", "until", "elif", "with", "using", "lock"}
)
# What is deeper within others is a part of the innermost of these.
MAX_NESTED = 16


@dataclass(frozen=True)
class Block:
    """A definition: its name, its lines, and every name that they use."""

    file: str
    name: str
    first_line: int
    last_line: int
    uses: frozenset[str]

    def holds(self, first_line: int, last_line: int) -> bool:
        """Whether it holds all lines of a range."""
        return self.first_line <= first_line and last_line <= self.last_line


def blocks_of(file: SourceFile) -> list[Block]:
    """Returns the definitions among the lines of a file that were read."""
    family = language_of(file.path).family
    found = []
    for first_line, run in _runs(file):
        lasts = last_lines(run, family)
        # The last lines of those around.
        around: list[int] = []
        for at, line in enumerate(run):
            name = file.starts.get(first_line + at, "").rpartition(".")[2] or defined_name(line.structure, family)
            around = [last for last in around if last >= at]
            if not name or len(around) >= MAX_NESTED:
                continue
            around.append(lasts[at])
            uses = frozenset[str]().union(*(each.names for each in run[at : lasts[at] + 1]))
            found.append(Block(file.path, name, first_line + at, first_line + lasts[at], uses))
    return found


def _runs(file: SourceFile) -> Iterator[tuple[int, list[CodeLine]]]:
    """Yields runs of lines without a gap."""
    run: list[CodeLine] = []
    first = 0
    for number in sorted(file.lines):
        if run and number != first + len(run):
            yield first, run
            run = []
        if not run:
            first = number
        run.append(file.lines[number])
    if run:
        yield first, run


def defined_name(structure: str, family: Family) -> str:
    """Returns the name that a line defines, or an empty string."""
    found = _KEYWORD.search(structure)
    if found:
        return found[1]
    if family is not Family.BRACES:
        return ""
    found = _ASSIGNED.search(structure)
    if found:
        return found[1]
    name = re.split("::|~", _typed_name(structure))[-1]
    return "" if name in _CONTROL or not structure.rstrip().endswith(("{", ")", ",", "(")) else name


def _typed_name(structure: str) -> str:
    """Returns the name before a line's first bracket where it looks like `int main(`, in time linear in its length."""
    head, bracket, rest = structure.partition("(")
    if not bracket or ";" in rest or not _TYPED.fullmatch(head):
        return ""
    backwards = _NAME_CHARS.match(head.rstrip()[::-1])
    last = backwards[0][::-1] if backwards else ""
    start = _NAME_START.search(last)
    return last[start.start() :] if start else ""
