"""The tools that give code: fetch_code and read_file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from services.code_executor.arguments import FetchCode, ReadFile, split_location
from services.code_executor.documents import Document, open_document
from services.code_executor.errors import ArgumentRefused, ContentRefused
from services.code_executor.fragments import Budget, Fragment, show_line
from services.code_executor.limits import Limits
from services.code_executor.lookup import Found, Symbols
from services.code_executor.manifest import Entry
from services.code_executor.paths import file_entry, file_or_directory, show_path
from services.code_executor.results import Result, make_result
from services.code_executor.snapshots import Snapshot
from services.code_executor.symbols import Definition, split_symbol


class Fetching:
    """Gives pieces of files, by place or by symbol."""

    def __init__(self, symbols: Symbols, limits: Limits) -> None:
        self._symbols = symbols
        self._limits = limits

    async def fetch_code(self, snapshot: Snapshot, arguments: FetchCode) -> Result:
        """Gives a file, a range of lines with what is around it, or the definitions of a symbol."""
        arguments = _with_location(snapshot, arguments)
        if arguments.symbol is not None:
            if arguments.first_line is not None or arguments.last_line is not None:
                raise ArgumentRefused("invalid_arguments", "give either symbol or first_line, not both")
            return await self._by_symbol(snapshot, arguments.symbol, arguments.path or "")
        if arguments.path is None:
            raise ArgumentRefused("invalid_arguments", "give path, symbol, or both")
        entry = file_entry(snapshot, arguments.path)
        if arguments.first_line is None:
            if arguments.last_line is not None or arguments.context_lines is not None:
                raise ArgumentRefused("invalid_arguments", "last_line and context_lines need first_line")
            return await asyncio.to_thread(self._range, snapshot, entry, 1, None)
        return await asyncio.to_thread(self._around, snapshot, entry, arguments.first_line, arguments)

    async def read_file(self, snapshot: Snapshot, arguments: ReadFile) -> Result:
        """Gives a file, or a range of its lines."""
        entry = file_entry(snapshot, arguments.path)
        return await asyncio.to_thread(self._range, snapshot, entry, arguments.first_line or 1, arguments.last_line)

    def _range(self, snapshot: Snapshot, entry: Entry, first: int, last: int | None) -> Result:
        document = open_document(snapshot, entry)
        if not document.lines and first == 1:
            return make_result(snapshot, heading=f"{show_path(entry.path)} is empty", notes=list(document.notes))
        last = _check_range(document, first, last if last is not None else max(first, len(document.lines)))
        budget = Budget(self._limits)
        return _code(snapshot, [budget.take(document, first, last)], budget)

    def _around(self, snapshot: Snapshot, entry: Entry, first: int, arguments: FetchCode) -> Result:
        document = open_document(snapshot, entry)
        last = _check_range(document, first, first if arguments.last_line is None else arguments.last_line)
        enclosing = self._symbols.of(document).enclosing(first)
        start, end = self._widened(first, last, arguments.context_lines, enclosing)
        budget = Budget(self._limits)
        fragment = budget.take(document, max(1, start), end, enclosing)
        return _code(snapshot, [fragment], budget, wanted={"first_line": first, "last_line": last})

    def _widened(self, first: int, last: int, context: int | None, enclosing: Definition | None) -> tuple[int, int]:
        if context is not None:
            return first - context, last + context
        is_short = enclosing is not None and enclosing.last_line - enclosing.first_line < self._limits.enclosing_lines
        if enclosing is not None and is_short:
            return min(first, enclosing.first_line), max(last, enclosing.last_line)
        context = self._limits.default_context_lines
        # What belongs to no function is read from the file's top, where it is sure not to begin inside a comment.
        is_near_top = enclosing is None and first <= self._limits.enclosing_lines
        return 1 if is_near_top else first - context, last + context

    async def _by_symbol(self, snapshot: Snapshot, symbol: str, path: str) -> Result:
        place = file_or_directory(snapshot, path)
        found = await self._symbols.find(snapshot, symbol, place)
        if not found.definitions:
            raise ContentRefused("symbol_not_found", _not_found(symbol, place, found))
        return await asyncio.to_thread(self._definitions, snapshot, symbol, found)

    def _definitions(self, snapshot: Snapshot, symbol: str, found: Found) -> Result:
        budget = Budget(self._limits)
        if found.cut:
            budget.cut(found.cut)
        shown = found.definitions[: self._limits.symbol_definitions]
        others = found.definitions[len(shown) :]
        if others:
            budget.cut(f"{len(others)} more definitions of this name are only listed")
        documents = {entry.path: open_document(snapshot, entry) for entry, _ in shown}
        taken = [budget.take(documents[e.path], d.first_line, d.last_line, d) for e, d in shown]
        fragments = [fragment for fragment in taken if fragment is not None]
        calls = self._calls(documents.values(), split_symbol(symbol)[-1], budget)
        listing = [f"also defined at {_located(*other)}" for other in others[: self._limits.symbol_callers]]
        listing += [_called(call) for call in calls]
        definitions = [{"path": entry.path, **definition.as_data()} for entry, definition in shown]
        return make_result(
            snapshot, fragments=fragments, listing=listing, cuts=budget.cuts, definitions=definitions, callers=calls
        )

    def _calls(self, documents: Iterable[Document], name: str, budget: Budget) -> list[dict[str, object]]:
        """Returns the first calls of a name in some files, and has the budget say how many more there are."""
        calls: list[dict[str, object]] = []
        left_out = 0
        for document in documents:
            symbols = self._symbols.of(document)
            callers = symbols.callers(name, self._limits.symbol_callers - len(calls))
            calls += [_call(document, line, caller) for line, caller in callers]
            left_out += len(symbols.calling_lines(name)) - len(callers)
        if left_out:
            budget.cut(f"{left_out} more calls are left out")
        return calls


def _call(document: Document, line: int, caller: Definition | None) -> dict[str, object]:
    return {
        "path": document.entry.path,
        "line": line,
        "inside": caller.qualified_name if caller else "",
        "text": document.lines[line - 1].strip()[:200],
    }


def _with_location(snapshot: Snapshot, arguments: FetchCode) -> FetchCode:
    """Reads `file:line` in path, unless a file has that very name."""
    if arguments.path is None or arguments.first_line is not None or arguments.path in snapshot.entries:
        return arguments
    location = split_location(arguments.path)
    if location is None or arguments.symbol is not None or location[1] < 1:
        return arguments
    path, first, last = location
    return arguments.model_copy(update={"path": path, "first_line": first, "last_line": last})


def _check_range(document: Document, first: int, last: int) -> int:
    """Returns the last line that there is of a range. Raises ArgumentRefused."""
    total = len(document.lines)
    if last < first:
        raise ArgumentRefused("invalid_range", f"last_line {last} comes before first_line {first}")
    if first > total:
        raise ArgumentRefused("line_not_found", f"{show_path(document.entry.path)} has {total} lines, no line {first}")
    return min(last, total)


def _code(snapshot: Snapshot, taken: list[Fragment | None], budget: Budget, **data: Any) -> Result:
    fragments = [fragment for fragment in taken if fragment is not None]
    return make_result(snapshot, fragments=fragments, cuts=budget.cuts, **data)


def _located(entry: Entry, definition: Definition) -> str:
    return f"{show_path(entry.path)}:{definition.first_line} ({definition.kind} {definition.qualified_name})"


def _called(call: dict[str, object]) -> str:
    inside = f" in {call['inside']}" if call["inside"] else ""
    return f"called at {show_path(str(call['path']))}:{call['line']}{inside}: {show_line(str(call['text']))}"


def _not_found(symbol: str, place: str, found: Found) -> str:
    where = f" in {show_path(place)}" if place else ""
    where += f" as far as could be read: {found.cut}" if found.cut else ""
    if found.mentions:
        mentions = ", ".join(show_path(path) for path in found.mentions)
        return f"{symbol!r} is not defined{where}; mentioned in {mentions}"
    return f"{symbol!r} is neither defined nor mentioned in any source file{where}"
