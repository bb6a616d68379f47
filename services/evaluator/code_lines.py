"""Lines of code, with what a program does told from what its authors say about it.

Comments and docstrings are inert: they run nowhere, so no verdict may rest on them, and no judge needs to read them.
Telling them apart needs a lexer, not a parser, because what was read may be a piece of a file. A piece that starts in
the middle of a file may start inside a comment; then a line counts as code only when it is code either way.

Lines are numbered by line feeds, as git and scanners do. Compilers end a line, and with it a comment, at more than
that: what follows such a character within a line is read as the next line, or either way where the language is not
known to do so. A carriage return before the line feed is a part of the line's own end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from pygments.lexer import Lexer

from services.evaluator.languages import Family, Language, language_of
from services.evaluator.readings import CODE, LINE, STRING, TRIPLE_QUOTES, Reading, read_text
from services.kit.lexing import Allowance, Lexing, QuickTexts, TooMuchWork

# A line end that is not the line's own.
_INNER_LINE_END = re.compile("[\r\x85\u2028\u2029](?!\r*\n)")
_ESCAPE = re.compile(r"\\(?:u+(?P<code>[0-9a-fA-F]{4})|[^\n])")
# All that is read for one draft. The model is shown less, and an ordinary draft's code is read to its end.
MAX_CHARACTERS = 200_000
MAX_WORK = 250_000
CODE_KIND, STRING_KIND = "c", "s"
_LEADING_STAR = re.compile(r"\s*\*(?:\s|$)")
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class CodeLine:
    """One line. The views have its length: what they leave out stands as blanks.

    code: code in at least one reading. certain: code in every reading. structure: `code` without strings. names: what
    the code calls things. unread: nobody knows what of it is code, as telling takes too long; all views are blank.
    """

    text: str
    code: str
    certain: str
    structure: str
    names: frozenset[str]
    unread: bool = False

    @property
    def carries(self) -> bool:
        """Whether the line is surely more than comments, blanks and brackets."""
        return _WORD.search(self.certain) is not None

    @cached_property
    def squeezed(self) -> tuple[str, str]:
        """The text with each run of blanks made one, and each character's kind: code, string, or neither.

        It ends with a blank and starts with none; a line of blanks is empty.
        """
        text: list[str] = []
        kinds: list[str] = []
        views = (self.certain.ljust(len(self.text)), self.structure)
        for char, sure, bare in zip(self.text + "\n", *(view + "\n" for view in views), strict=True):
            if char.isspace() and (not text or text[-1] == " "):
                continue
            text.append(" " if char.isspace() else char)
            kinds.append(" " if sure.isspace() else CODE_KIND if not bare.isspace() else STRING_KIND)
        return "".join(text), "".join(kinds)


def full_allowance(lexing: Lexing | None = None) -> Allowance:
    """Returns what all the code of one draft may take to read."""
    return Allowance(MAX_CHARACTERS, MAX_WORK, lexing or QuickTexts())


def read_region(
    path: str, lines: Sequence[str], *, anchored: bool, allowance: Allowance | None = None
) -> list[CodeLine]:
    """Reads consecutive lines of a file; `anchored` when the first is known to start outside any comment.

    All of them are unread when the allowance is not enough: where a lexer has to stop tells nothing of what it read.
    """
    try:
        return _read_region(path, lines, anchored=anchored, allowance=allowance or full_allowance())
    except TooMuchWork:
        return [_unread(line) for line in lines]


def _unread(line: str) -> CodeLine:
    blank = " " * len(line)
    return CodeLine(line, blank, blank, blank, frozenset(), unread=True)


def _read_region(path: str, lines: Sequence[str], *, anchored: bool, allowance: Allowance) -> list[CodeLine]:
    language = language_of(path)
    text = "".join(line + "\n" for line in lines)
    allowance.take(len(text))
    readings = [
        reading
        for meant, origins in _as_compiled(language, text)
        for reading in _placed(_readings(language, meant, allowance, anchored=anchored), origins, text)
    ]
    offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
    names_by_line = _names_by_line(readings, offsets)
    found = []
    for number, line in enumerate(lines):
        offset, end = offsets[number], offsets[number] + len(line)
        spans = [bytes(reading.classes[offset:end]) for reading in readings]
        names = frozenset(names_by_line.get(number, ()))
        found.append(_line(line, spans, names, prose=not anchored and _is_prose(language.family, line, names)))
    return found


def _as_compiled(language: Language, text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Yields a text as its compiler may take it: lines ended by line feeds alone, and where each character is from."""
    meant, origins = _unescaped(text) if language.has_escapes else (text, range(len(text)))
    ends = language.line_ends or "\r"
    parted = _INNER_LINE_END.sub(lambda end: "\n" if end[0] in ends else end[0], meant)
    yield parted, origins
    if not language.line_ends and parted != meant:
        yield meant, origins


def _unescaped(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text with its Unicode escapes replaced, and the offset at which each of its characters stood."""
    meant: list[str] = []
    origins: list[int] = []
    at = 0
    for escape in _ESCAPE.finditer(text):
        if escape["code"]:
            meant += [text[at : escape.start()], chr(int(escape["code"], 16))]
            origins += range(at, escape.start() + 1)
            at = escape.end()
    return "".join([*meant, text[at:]]), [*origins, *range(at, len(text))]


def _placed(readings: Iterable[Reading], origins: Sequence[int], text: str) -> Iterator[Reading]:
    """Yields readings by the offsets of the text that was read."""
    for reading in readings:
        if len(origins) == len(text):
            yield reading
            continue
        classes = bytearray(len(text))
        for kind, first, end in zip(reading.classes, origins, [*origins[1:], len(text)], strict=True):
            classes[first:end] = bytes([kind]) * (end - first)
        yield Reading(classes, tuple((origins[at] if at >= 0 else at, name) for at, name in reading.names))


def _names_by_line(readings: Sequence[Reading], offsets: Sequence[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for reading in readings:
        for at, name in reading.names:
            if at >= 0:
                found.setdefault(bisect_right(offsets, at) - 1, set()).add(name)
    return found


def _line(line: str, spans: Sequence[bytes], names: frozenset[str], *, prose: bool) -> CodeLine:
    best = [max(classes) for classes in zip(*spans, strict=True)]
    worst = [min(classes) for classes in zip(*spans, strict=True)]
    certain = "" if prose else _view(line, worst, STRING)
    return CodeLine(line, _view(line, best, STRING), certain, _view(line, best, CODE), names)


def _view(line: str, classes: Sequence[int], least: int) -> str:
    return "".join(char if kind >= least or char.isspace() else " " for char, kind in zip(line, classes, strict=True))


def _readings(language: Language, text: str, allowance: Allowance, *, anchored: bool) -> list[Reading]:
    family, lexer = language.family, language.lexer
    if family is Family.PROSE:
        return [Reading(bytearray(len(text)), ())]
    straight = read_text(family, lexer, text, allowance)
    if anchored:
        return [straight]
    opened = _closed_without_opening(family, straight, text)
    if opened:
        rest = read_text(family, lexer, text[opened:], allowance)
        names = tuple((at + opened, name) for at, name in rest.names)
        return [Reading(bytearray(opened) + rest.classes, names)]
    if family is Family.PYTHON:
        return [straight, *_inside_docstring(lexer, text, allowance)]
    return [straight]


def _closed_without_opening(family: Family, straight: Reading, text: str) -> int:
    """Returns the offset after a comment's end whose start was not read, or 0."""
    if family is Family.MARKUP:
        opened, separator, _ = text.partition("-->")
        return len(opened) + len(separator) if separator and "<!--" not in opened else 0
    if family is not Family.BRACES:
        return 0
    at = text.find("*/")
    while at >= 0:
        if straight.classes[at] == straight.classes[at + 1] == CODE:
            return at + 2
        at = text.find("*/", at + 1)
    stars = 0
    for line in LINE.findall(text):
        if not _LEADING_STAR.match(line):
            break
        stars += len(line)
    return stars


def _inside_docstring(lexer: type[Lexer] | None, text: str, allowance: Allowance) -> list[Reading]:
    """Reads a text with an odd number of triple quotes as if it began inside a docstring."""
    readings = []
    for quotes in TRIPLE_QUOTES:
        if text.count(quotes) % 2:
            reading = read_text(Family.PYTHON, lexer, quotes + text, allowance)
            names = tuple((at - len(quotes), name) for at, name in reading.names)
            readings.append(Reading(reading.classes[len(quotes) :], names))
    return readings


def _is_prose(family: Family, line: str, names: frozenset[str]) -> bool:
    """Whether a line has more names in a row than the language allows, as sentences have."""
    if family not in (Family.PYTHON, Family.BRACES):
        return False
    longest = run = 0
    for word in re.split(r"(\W+)", line):
        if word in names:
            run += 1
        elif not word.isspace():
            run = 0
        longest = max(longest, run)
    return longest >= (2 if family is Family.PYTHON else 3)
