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
from functools import lru_cache
from itertools import accumulate

from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Text, _TokenType

from services.evaluator.languages import Family, Language, MakeLexer, is_a, language_of

# A line end that is not the line's own.
_INNER_LINE_END = re.compile("[\r\x85\u2028\u2029](?!\r*\n)")
_ESCAPE = re.compile(r"\\(?:u+(?P<code>[0-9a-fA-F]{4})|[^\n])")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Longer lines are generated code; their rest counts as code without being looked at.
MAX_LEXED_LINE = 1000
_INERT, _STRING, _CODE = 0, 1, 2
_NAME, _BRACKETS, _DOCSTRING = 1, 2, 4
_LEADING_STAR = re.compile(r"\s*\*(?:\s|$)")
_STRING_START = re.compile(r"\s*[bfru]{0,2}['\"]", re.IGNORECASE)
_WORD = re.compile(r"\w")
# Directives for editors and for who reads the compiler's output.
_IDLE_DIRECTIVE = re.compile(r"^\s*#\s*(region|endregion|pragma|warning|error)\b|__END__", re.MULTILINE)
_IDLE_PUNCTUATION = {Family.PYTHON: frozenset("()[],;+*%"), Family.BRACES: frozenset("();+")}
_TRIPLE_QUOTES = ('"""', "'''")
_CODE_TOKENS = (Name, Keyword, Literal, Number, Operator, Punctuation)


@dataclass(frozen=True)
class CodeLine:
    """One line. The views have its length: what they leave out stands as blanks.

    code: code in at least one reading. certain: code in every reading. structure: `code` without strings. names: what
    the code calls things.
    """

    text: str
    code: str
    certain: str
    structure: str
    names: frozenset[str]

    @property
    def carries(self) -> bool:
        """Whether the line is surely more than comments, blanks and brackets."""
        return _WORD.search(self.certain) is not None


@dataclass(frozen=True)
class _Reading:
    """One way to read a text: a class for each character, and the names in it by offset."""

    classes: bytearray
    names: tuple[tuple[int, str], ...]


def read_region(path: str, lines: Sequence[str], *, anchored: bool) -> list[CodeLine]:
    """Reads consecutive lines of a file; `anchored` when the first is known to start outside any comment."""
    language = language_of(path)
    clipped = [line[:MAX_LEXED_LINE] for line in lines]
    text = "".join(line + "\n" for line in clipped)
    readings = [
        reading
        for meant, origins in _as_compiled(language, text)
        for reading in _placed(_readings(language.family, language.make_lexer, meant, anchored=anchored), origins, text)
    ]
    offsets = list(accumulate((len(line) + 1 for line in clipped), initial=0))
    names_by_line = _names_by_line(readings, offsets)
    found = []
    for number, (line, short) in enumerate(zip(lines, clipped, strict=True)):
        offset, end = offsets[number], offsets[number] + len(short)
        spans = [bytes(reading.classes[offset:end]) for reading in readings]
        names = frozenset(names_by_line.get(number, ()))
        found.append(_line(line, spans, names, prose=not anchored and _is_prose(language.family, short, names)))
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


def _placed(readings: Iterable[_Reading], origins: Sequence[int], text: str) -> Iterator[_Reading]:
    """Yields readings by the offsets of the text that was read."""
    for reading in readings:
        if len(origins) == len(text):
            yield reading
            continue
        classes = bytearray(len(text))
        for kind, first, end in zip(reading.classes, origins, [*origins[1:], len(text)], strict=True):
            classes[first:end] = bytes([kind]) * (end - first)
        yield _Reading(classes, tuple((origins[at] if at >= 0 else at, name) for at, name in reading.names))


def _names_by_line(readings: Sequence[_Reading], offsets: Sequence[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for reading in readings:
        for at, name in reading.names:
            if at >= 0:
                found.setdefault(bisect_right(offsets, at) - 1, set()).add(name)
    return found


def _line(line: str, spans: Sequence[bytes], names: frozenset[str], *, prose: bool) -> CodeLine:
    rest = line[MAX_LEXED_LINE:]
    best = [max(classes) for classes in zip(*spans, strict=True)]
    worst = [min(classes) for classes in zip(*spans, strict=True)]
    certain = "" if prose else _view(line, worst, _STRING) + rest
    return CodeLine(line, _view(line, best, _STRING) + rest, certain, _view(line, best, _CODE) + rest, names)


def _view(line: str, classes: Sequence[int], least: int) -> str:
    return "".join(char if kind >= least or char.isspace() else " " for char, kind in zip(line, classes, strict=False))


def _readings(family: Family, make_lexer: MakeLexer | None, text: str, *, anchored: bool) -> list[_Reading]:
    if family is Family.PROSE:
        return [_Reading(bytearray(len(text)), ())]
    straight = _lex(family, make_lexer, text)
    if anchored:
        return [straight]
    opened = _closed_without_opening(family, straight, text)
    if opened:
        rest = _lex(family, make_lexer, text[opened:])
        names = tuple((at + opened, name) for at, name in rest.names)
        return [_Reading(bytearray(opened) + rest.classes, names)]
    if family is Family.PYTHON:
        return [straight, *_inside_docstring(make_lexer, text)]
    return [straight]


def _closed_without_opening(family: Family, straight: _Reading, text: str) -> int:
    """Returns the offset after a comment's end whose start was not read, or 0."""
    if family is Family.MARKUP:
        opened, separator, _ = text.partition("-->")
        return len(opened) + len(separator) if separator and "<!--" not in opened else 0
    if family is not Family.BRACES:
        return 0
    at = text.find("*/")
    while at >= 0:
        if straight.classes[at] == straight.classes[at + 1] == _CODE:
            return at + 2
        at = text.find("*/", at + 1)
    stars = 0
    for line in _LINE.findall(text):
        if not _LEADING_STAR.match(line):
            break
        stars += len(line)
    return stars


def _inside_docstring(make_lexer: MakeLexer | None, text: str) -> list[_Reading]:
    """Reads a text with an odd number of triple quotes as if it began inside a docstring."""
    readings = []
    for quotes in _TRIPLE_QUOTES:
        if text.count(quotes) % 2:
            reading = _lex(Family.PYTHON, make_lexer, quotes + text)
            names = tuple((at - len(quotes), name) for at, name in reading.names)
            readings.append(_Reading(reading.classes[len(quotes) :], names))
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


def _lex(family: Family, make_lexer: MakeLexer | None, text: str) -> _Reading:
    if make_lexer is None:
        return _lex_unknown(text)
    classes = bytearray(len(text))
    names: list[tuple[int, str]] = []
    depth = 0
    for start, kind, value in make_lexer().get_tokens_unprocessed(text):
        standing, traits = _traits(kind)
        if family is Family.OTHER and is_a(kind, Text):
            # To lexers of shells and makefiles, what is run is plain text.
            standing = _CODE
        if traits & _BRACKETS:
            depth = max(0, depth + sum(map(value.count, "([{")) - sum(map(value.count, ")]}")))
        if traits & _DOCSTRING and not (depth and family is Family.PYTHON):
            # Within brackets, a triple-quoted string that starts a line is an argument; elsewhere it is a docstring.
            standing = _INERT
        if traits & _NAME:
            names.append((start, value))
        if standing and not (kind is Comment.Preproc and _is_idle(text, start, start + len(value))):
            classes[start : start + len(value)] = bytes([standing]) * len(value)
    if family is Family.PYTHON:
        _silence_bare_strings(text, classes)
    if family in _IDLE_PUNCTUATION:
        _silence_idle_statements(text, classes, family)
    return _Reading(classes, tuple(names))


@lru_cache(maxsize=1024)
def _traits(kind: _TokenType) -> tuple[int, int]:
    """Returns what a kind of token counts as, and what else it is."""
    if is_a(kind, Comment):
        return (_CODE if is_a(kind, Comment.Preproc) or is_a(kind, Comment.PreprocFile) else _INERT), 0
    if is_a(kind, String):
        return _STRING, _DOCSTRING if is_a(kind, String.Doc) else 0
    named = _NAME if is_a(kind, Name) and not is_a(kind, Name.Builtin) else 0
    brackets = _BRACKETS if is_a(kind, Punctuation) or is_a(kind, Operator) else 0
    return (_CODE if any(is_a(kind, code) for code in _CODE_TOKENS) else _INERT), named | brackets


def _is_idle(text: str, start: int, end: int) -> bool:
    """Tells whether a part of a directive belongs to one that changes nothing of the program."""
    return _IDLE_DIRECTIVE.search(text, text.rfind("\n", 0, start) + 1, end) is not None


def _silence_bare_strings(text: str, classes: bytearray) -> None:
    """Makes statements inert that are a string and nothing else, also when the string's end was not read."""
    depth, offset, continued, silenced = 0, 0, False, False
    for line in _LINE.findall(text):
        span = range(offset, offset + len(line))
        kinds = {classes[at] for at in span if not text[at].isspace()}
        structure = "".join(text[at] for at in span if classes[at] == _CODE)
        starts = not depth and not continued and _STRING_START.match(line) is not None
        silenced = (starts or silenced) and kinds <= {_STRING}
        if silenced:
            classes[offset : offset + len(line)] = bytes(len(line))
            silenced = any(line.count(quotes) % 2 for quotes in _TRIPLE_QUOTES) == starts
        depth = max(0, depth + sum(map(structure.count, "([{")) - sum(map(structure.count, ")]}")))
        continued = line.rstrip("\r\n").endswith("\\")
        offset += len(line)


def _silence_idle_statements(text: str, classes: bytearray, family: Family) -> None:
    """Makes statements inert that are made of strings and punctuation: they run, and do nothing."""
    depth = offset = start = 0
    opening, closing = ("([{", ")]}") if family is Family.PYTHON else ("([", ")]")
    for line in _LINE.findall(text):
        structure = "".join(text[at] for at in range(offset, offset + len(line)) if classes[at] == _CODE)
        depth = max(0, depth + sum(map(structure.count, opening)) - sum(map(structure.count, closing)))
        offset += len(line)
        goes_on = depth or line.rstrip("\r\n").endswith("\\") or classes[offset - 1] == _STRING
        if goes_on and offset < len(text):
            continue
        statement = range(start, offset)
        code = {text[at] for at in statement if classes[at] == _CODE and not text[at].isspace()}
        ends = family is Family.PYTHON or ";" in code
        if ends and not depth and code <= _IDLE_PUNCTUATION[family] and _STRING in classes[start:offset]:
            classes[start:offset] = bytes(len(statement))
        start = offset


def _lex_unknown(text: str) -> _Reading:
    """Reads a language no lexer knows: lines that start as comments do in most languages are inert."""
    classes = bytearray([_CODE]) * len(text)
    offset = 0
    for line in _LINE.findall(text):
        if re.match(r"\s*(#|//|/\*|\*|--|;|%|<!--|'|\"\"\"|REM\b)", line):
            classes[offset : offset + len(line)] = bytes(len(line))
        offset += len(line)
    names = tuple((match.start(), match[0]) for match in re.finditer(r"[^\W\d]\w*", text) if classes[match.start()])
    return _Reading(classes, names)
