"""Finds a symbol's definitions in a commit: ripgrep names the files that mention it, tree-sitter reads those."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.code_executor.documents import Document, open_document
from services.code_executor.errors import ArgumentRefused, ContentRefused
from services.code_executor.languages import DECLARATION, SUFFIXES
from services.code_executor.limits import Limits
from services.code_executor.manifest import FILE, Entry
from services.code_executor.ripgrep import Query, Ripgrep
from services.code_executor.snapshots import Snapshot
from services.code_executor.symbols import NO_SYMBOLS, Definition, FileSymbols, extract, split_symbol

_GLOBS = ("*" + "{" + ",".join(SUFFIXES) + "}",)
_FILES_IN_MEMORY = 4096
_ANSWERS_IN_MEMORY = 4096
_MENTIONS = 5
_TEST_PATH = re.compile(
    r"(^|/)(tests?|testing|mocks?|fixtures?|examples?|vendor|third_party)/|(^|/)test_|_test\.", re.I
)
# What commonly stands before a name that is being defined; only decides which files are read first.
_HINT = (
    r"\b(?:def|class|func|function|struct|union|enum|interface|record|type|typedef|namespace|trait|const|let|var|define)"
    r"\b[^\n;=]{0,200}?\b%s\b|^[\w:<>,&*\[\]~ \t]+[ \t*&:~]%s[ \t]*[(={]"
)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Recent(Generic[Key, Value]):
    """The values used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        self._values[key] = value
        while len(self._values) > self._size:
            self._values.popitem(last=False)


@dataclass(frozen=True)
class Found:
    """Where a symbol is defined, the likeliest first.

    mentions: some files that hold the name. cut: why there may be more, or empty.
    """

    definitions: tuple[tuple[Entry, Definition], ...]
    mentions: tuple[str, ...] = ()
    cut: str = ""


class Symbols:
    """Symbols of files, kept by content: two commits that share a file share its symbols."""

    def __init__(self, ripgrep: Ripgrep, limits: Limits) -> None:
        self._ripgrep = ripgrep
        self._limits = limits
        self._files: _Recent[tuple[str, str], FileSymbols] = _Recent(_FILES_IN_MEMORY)
        self._answers: _Recent[tuple[str, tuple[str, ...], str], Found] = _Recent(_ANSWERS_IN_MEMORY)

    async def find(self, snapshot: Snapshot, symbol: str, path: str = "") -> Found:
        """Finds a symbol in a file, a folder or, by default, everywhere. Raises ArgumentRefused."""
        parts = split_symbol(symbol)
        word = _word(parts, symbol)
        key = (snapshot.key, parts, path)
        answer = self._answers.get(key)
        if answer is None:
            answer = await self._find(snapshot, parts, word, path)
            if not answer.cut.startswith("the search was stopped"):
                self._answers.put(key, answer)
        return answer

    def of(self, document: Document) -> FileSymbols:
        """Returns the symbols of a file, none when its language is not known or it is too large; blocks."""
        language = document.language
        if language is None or len(document.text) > self._limits.parse_bytes:
            return NO_SYMBOLS
        key = (document.entry.blob, language.name)
        symbols = self._files.get(key)
        if symbols is None:
            symbols = extract(document.text, language)
            self._files.put(key, symbols)
        return symbols

    async def _find(self, snapshot: Snapshot, parts: tuple[str, ...], word: str, path: str) -> Found:
        paths, cut = await self._candidates(snapshot, word, path)
        entries = [entry for path in paths if (entry := snapshot.entries.get(path)) and entry.kind == FILE]
        if len(entries) > self._limits.symbol_candidates:
            cut = f"{len(entries)} files mention the name, of which {self._limits.symbol_candidates} were read"
            entries = entries[: self._limits.symbol_candidates]
        found, unread = await asyncio.to_thread(self._definitions, snapshot, entries, parts)
        cut = "; ".join(filter(None, [cut, *unread[:_MENTIONS]]))
        return Found(tuple(sorted(found, key=_rank)), tuple(paths[:_MENTIONS]), cut)

    async def _candidates(self, snapshot: Snapshot, word: str, path: str) -> tuple[list[str], str]:
        """Returns files that mention a word; when they are many, those that seem to define it come first."""
        query = Query(word, whole_words=re.fullmatch(r"\w+", word) is not None, path=path, globs=_GLOBS)
        paths, cut = await self._ripgrep.files(snapshot, query)
        if len(paths) <= self._limits.symbol_candidates:
            return paths, cut
        name = re.escape(word)
        hinted, _ = await self._ripgrep.files(
            snapshot, Query(_HINT % (name, name), is_regex=True, path=path, globs=_GLOBS)
        )
        likely = set(hinted)
        return sorted(paths, key=lambda path: (path not in likely, _TEST_PATH.search(path) is not None, path)), cut

    def _definitions(
        self, snapshot: Snapshot, entries: Iterable[Entry], parts: tuple[str, ...]
    ) -> tuple[list[tuple[Entry, Definition]], list[str]]:
        """Returns the definitions of a symbol, and why files were not read that may hold more."""
        found, unread = [], []
        for entry in entries:
            try:
                symbols = self._files_symbols(snapshot, entry)
            except ContentRefused as refused:
                if refused.reason != "binary_file":
                    unread.append(refused.message)
                continue  # ripgrep reads some files that we do not show
            found += [(entry, definition) for definition in symbols.definitions if definition.matches(parts)]
        return found, unread

    def _files_symbols(self, snapshot: Snapshot, entry: Entry) -> FileSymbols:
        return self.of(open_document(snapshot, entry))


def _word(parts: tuple[str, ...], symbol: str) -> str:
    """Returns what a file that defines the symbol must hold."""
    name = parts[-1] if parts else ""
    if name.startswith("operator"):
        return "operator"
    match = re.fullmatch(r"[~#@]?([\w$]+[?!]?)", name)
    if match is None or not all(re.fullmatch(r"[~#@]?[\w$]+[?!]?", part) for part in parts[:-1]):
        raise ArgumentRefused(
            "invalid_symbol", f"{symbol!r} is not a name; give one such as run, Server.run or ns::Server::run"
        )
    return match[1]


def _rank(found: tuple[Entry, Definition]) -> tuple[bool, bool, int, str, int]:
    entry, definition = found
    is_test = _TEST_PATH.search(entry.path) is not None
    return definition.kind == DECLARATION, is_test, len(definition.scope), entry.path, definition.first_line
