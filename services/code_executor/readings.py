"""What is known of the lines that a tool gives, from all of their file: see `signalbox.v1.CodeReading`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from signalbox.v1 import code_reading_pb2

from services.code_executor.documents import Document
from services.code_executor.fragments import Fragment
from services.code_executor.languages import DECLARATION, VARIABLE
from services.code_executor.limits import Limits
from services.code_executor.line_ends import INNER_RETURN
from services.code_executor.line_reader import Line, LineReader
from services.code_executor.symbols import Definition, FileSymbols
from services.code_executor.syntax import PARSE_S, parse
from services.code_executor.yaml_reader import read_yaml

NO_GRAMMAR = "no grammar is known for this kind of file"
TOO_LARGE = "the file is too large to be parsed"
TOO_LONG = "the file takes too long to be parsed"
TOO_MUCH = "it was found among too much other code to be parsed; ask for these lines alone"
AMBIGUOUS = "it holds characters at which some compilers end a line, and a comment, and others do not"
NOT_PARSED = "the file does not parse"
YAML = (".yaml", ".yml")
# In characters: its scanner is no fast one.
MOST_YAML = 64 * 1024
# Ends of lines to YAML 1.1, and to 1.2 not.
YAML_ENDS = re.compile("[\x85\u2028\u2029]")
Reader = Callable[[Fragment], code_reading_pb2.CodeReading]
# Of definitions that begin before some lines, the innermost.
_MOST_AROUND = 16
_UNNAMED = frozenset({VARIABLE, DECLARATION})


class Readings:
    """Reads the lines of fragments by all of their files."""

    def __init__(self, symbols_of: Callable[[Document], FileSymbols], limits: Limits) -> None:
        self._symbols_of = symbols_of
        self._limits = limits

    def of(self, fragments: Sequence[Fragment]) -> list[code_reading_pb2.CodeReading]:
        """Returns what is known of each fragment; blocks. A search's many files are parsed up to a limit together."""
        left = self._limits.parsed_bytes
        readers: dict[str, Reader] = {}
        for fragment in fragments:
            document = fragment.document
            if document.entry.path not in readers:
                size = len(document.text)
                readers[document.entry.path] = self._reader(document) if size <= left else _unread(TOO_MUCH)
                left -= size
        return [readers[fragment.document.entry.path](fragment) for fragment in fragments]

    def _reader(self, document: Document) -> Reader:
        """Parses a file, and returns what reads fragments of it."""
        language = document.language
        if len(document.text) > self._limits.parse_bytes:
            return _unread(TOO_LARGE)
        if document.entry.path.lower().endswith(YAML):
            return _yaml_reader(document.text)
        if language is None:
            return _unread(NO_GRAMMAR)
        if language.is_ambiguous(document.text):
            return _unread(AMBIGUOUS)
        # A line feed takes as many bytes as what it stands for here.
        source = INNER_RETURN.sub("\n", document.text).encode()
        tree = parse(source, language.name, PARSE_S)
        if tree is None:
            return _unread(TOO_LONG)
        definitions = self._symbols_of(document).definitions
        return lambda fragment: code_reading_pb2.CodeReading(
            lines=LineReader(language, source, list(_places(fragment))).read(tree),
            definitions=[
                code_reading_pb2.CodeDefinition(name=one.name, first_line=one.first_line, last_line=one.last_line)
                for one in _reaching(definitions, fragment)
            ],
        )


def _unread(why: str) -> Reader:
    return lambda _: code_reading_pb2.CodeReading(unread=why)


def _yaml_reader(text: str) -> Reader:
    if len(text) > MOST_YAML:
        return _unread(TOO_LARGE)
    if YAML_ENDS.search(text):
        return _unread(AMBIGUOUS)
    lines = read_yaml(text)
    if lines is None:
        return _unread(NOT_PARSED)
    return lambda fragment: code_reading_pb2.CodeReading(lines=lines[fragment.first_line - 1 : fragment.last_line])


def _places(fragment: Fragment) -> Iterator[Line]:
    """Yields where in their file the lines of a fragment are, as far as they are shown."""
    lines = fragment.document.text.split("\n")
    start = sum(len(line.encode()) + 1 for line in lines[: fragment.first_line - 1])
    cut = set(fragment.cut_lines)
    for number, shown in enumerate(fragment.lines, fragment.first_line):
        yield Line(start, (shown[:-1] if number in cut else shown).encode())
        start += len(lines[number - 1].encode()) + 1


def _reaching(definitions: Sequence[Definition], fragment: Fragment) -> list[Definition]:
    """Returns the definitions that hold lines of a fragment, in order: the outermost of each line."""
    first, last = fragment.first_line, fragment.last_line
    named = [
        one for one in definitions if one.kind not in _UNNAMED and one.first_line <= last and one.last_line >= first
    ]
    by_line: dict[int, Definition] = {}
    for one in sorted(named, key=lambda one: (one.first_line, -one.last_line)):
        by_line.setdefault(one.first_line, one)
    around = [one for one in by_line.values() if one.first_line < first]
    return [*around[-_MOST_AROUND:], *(one for one in by_line.values() if one.first_line >= first)]
