"""Functions and classes among the lines that were read, found without a parser: pieces of files rarely parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.evaluator.bank import SourceFile
from services.evaluator.code_lines import CodeLine
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
_CLOSING = (")", "]", "}")


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
    for number in sorted(file.lines):
        name = file.starts.get(number, "").rpartition(".")[2] or defined_name(file.lines[number].structure, family)
        if name:
            length = _length(_lines_from(file, number), family)
            uses = frozenset[str]().union(*(file.lines[at].names for at in range(number, number + length)))
            found.append(Block(file.path, name, number, number + length - 1, uses))
    return found


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


def _lines_from(file: SourceFile, number: int) -> Iterator[CodeLine]:
    while (line := file.lines.get(number)) is not None:
        yield line
        number += 1


def _length(run: Iterator[CodeLine], family: Family) -> int:
    """Returns how many lines a definition takes that starts with the first of a run."""
    if family is Family.BRACES:
        return _braced(run)
    return _indented(run)


def _braced(run: Iterator[CodeLine]) -> int:
    depth, opened, count = 0, False, 0
    for count, line in enumerate(run, 1):
        for char in line.structure:
            if char == "{":
                depth, opened = depth + 1, True
            elif char == "}":
                depth -= 1
            elif char == ";" and not opened:
                return count
            if opened and depth <= 0:
                return count
    return count


def _indented(run: Iterator[CodeLine]) -> int:
    margin = _indent(next(run).code)
    last = 1
    for count, line in enumerate(run, 2):
        code = line.code.strip()
        if not code:
            continue
        if _indent(line.code) <= margin and not code.startswith(_CLOSING):
            return count if code == "end" else last
        last = count
    return last


def _indent(code: str) -> int:
    return len(code.expandtabs()) - len(code.expandtabs().lstrip())
