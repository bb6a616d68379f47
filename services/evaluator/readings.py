"""One way to read a text: what of it is inert, what is string, what is code, and the names in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pygments.lexer import Lexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Text, _TokenType

from services.evaluator.languages import Family, is_a
from services.kit.lexing import Allowance

INERT, STRING, CODE = 0, 1, 2
TRIPLE_QUOTES = ('"""', "'''")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NAME, _BRACKETS, _DOCSTRING = 1, 2, 4
_STRING_START = re.compile(r"\s*[bfru]{0,2}['\"]", re.IGNORECASE)
# Directives for editors and for who reads the compiler's output.
_IDLE_DIRECTIVE = re.compile(r"^[^\S\n]*#[^\S\n]*(region|endregion|pragma|warning|error)\b|__END__", re.MULTILINE)
_IDLE_PUNCTUATION = {Family.PYTHON: frozenset("()[],;+*%"), Family.BRACES: frozenset("();+")}
_CODE_TOKENS = (Name, Keyword, Literal, Number, Operator, Punctuation)


@dataclass(frozen=True)
class Reading:
    """One way to read a text: a class for each character, and the names in it by offset."""

    classes: bytearray
    names: tuple[tuple[int, str], ...]


def read_text(family: Family, lexer: type[Lexer] | None, text: str, allowance: Allowance) -> Reading:
    """Reads a text from where no comment is open. Raises TooMuchWork."""
    if lexer is None:
        return _read_unknown(text)
    classes = bytearray(len(text))
    names: list[tuple[int, str]] = []
    depth = 0
    directives = _Directives(text)
    for start, kind, value in allowance.lex(lexer, text):
        standing, traits = _traits(kind)
        if family is Family.OTHER and is_a(kind, Text):
            # To lexers of shells and makefiles, what is run is plain text.
            standing = CODE
        if traits & _BRACKETS:
            depth = max(0, depth + sum(map(value.count, "([{")) - sum(map(value.count, ")]}")))
        if traits & _DOCSTRING and not (depth and family is Family.PYTHON):
            # Within brackets, a triple-quoted string that starts a line is an argument; elsewhere it is a docstring.
            standing = INERT
        if traits & _NAME:
            names.append((start, value))
        if standing and not (kind is Comment.Preproc and directives.are_idle(start, start + len(value))):
            classes[start : start + len(value)] = bytes([standing]) * len(value)
    if family is Family.PYTHON:
        _silence_bare_strings(text, classes)
    if family in _IDLE_PUNCTUATION:
        _silence_idle_statements(text, classes, family)
    return Reading(classes, tuple(names))


@lru_cache(maxsize=1024)
def _traits(kind: _TokenType) -> tuple[int, int]:
    """Returns what a kind of token counts as, and what else it is."""
    if is_a(kind, Comment):
        return (CODE if is_a(kind, Comment.Preproc) or is_a(kind, Comment.PreprocFile) else INERT), 0
    if is_a(kind, String):
        return STRING, _DOCSTRING if is_a(kind, String.Doc) else 0
    named = _NAME if is_a(kind, Name) and not is_a(kind, Name.Builtin) else 0
    brackets = _BRACKETS if is_a(kind, Punctuation) or is_a(kind, Operator) else 0
    return (CODE if any(is_a(kind, code) for code in _CODE_TOKENS) else INERT), named | brackets


class _Directives:
    """The directives of a text that change nothing of the program, found once: a line may hold many parts of some."""

    def __init__(self, text: str) -> None:
        self._text = text

    def are_idle(self, start: int, end: int) -> bool:
        """Tells whether a part of a directive belongs to an idle one."""
        first = bisect_left(self._spans, (self._lines[bisect_right(self._lines, start) - 1],))
        return first < len(self._spans) and self._spans[first][1] <= end

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return [found.span() for found in _IDLE_DIRECTIVE.finditer(self._text)]

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self._text))]


def _silence_bare_strings(text: str, classes: bytearray) -> None:
    """Makes statements inert that are a string and nothing else, also when the string's end was not read."""
    depth, offset, continued, silenced = 0, 0, False, False
    for line in LINE.findall(text):
        span = range(offset, offset + len(line))
        kinds = {classes[at] for at in span if not text[at].isspace()}
        structure = "".join(text[at] for at in span if classes[at] == CODE)
        starts = not depth and not continued and _STRING_START.match(line) is not None
        silenced = (starts or silenced) and kinds <= {STRING}
        if silenced:
            classes[offset : offset + len(line)] = bytes(len(line))
            silenced = any(line.count(quotes) % 2 for quotes in TRIPLE_QUOTES) == starts
        depth = max(0, depth + sum(map(structure.count, "([{")) - sum(map(structure.count, ")]}")))
        continued = line.rstrip("\r\n").endswith("\\")
        offset += len(line)


def _silence_idle_statements(text: str, classes: bytearray, family: Family) -> None:
    """Makes statements inert that are made of strings and punctuation: they run, and do nothing."""
    depth = offset = start = 0
    opening, closing = ("([{", ")]}") if family is Family.PYTHON else ("([", ")]")
    for line in LINE.findall(text):
        structure = "".join(text[at] for at in range(offset, offset + len(line)) if classes[at] == CODE)
        depth = max(0, depth + sum(map(structure.count, opening)) - sum(map(structure.count, closing)))
        offset += len(line)
        goes_on = depth or line.rstrip("\r\n").endswith("\\") or classes[offset - 1] == STRING
        if goes_on and offset < len(text):
            continue
        statement = range(start, offset)
        code = {text[at] for at in statement if classes[at] == CODE and not text[at].isspace()}
        ends = family is Family.PYTHON or ";" in code
        if ends and not depth and code <= _IDLE_PUNCTUATION[family] and STRING in classes[start:offset]:
            classes[start:offset] = bytes(len(statement))
        start = offset


def _read_unknown(text: str) -> Reading:
    """Reads a language no lexer knows: lines that start as comments do in most languages are inert."""
    classes = bytearray([CODE]) * len(text)
    offset = 0
    for line in LINE.findall(text):
        if re.match(r"\s*(#|//|/\*|\*|--|;|%|<!--|'|\"\"\"|REM\b)", line):
            classes[offset : offset + len(line)] = bytes(len(line))
        offset += len(line)
    names = tuple((match.start(), match[0]) for match in re.finditer(r"[^\W\d]\w*", text) if classes[match.start()])
    return Reading(classes, names)
