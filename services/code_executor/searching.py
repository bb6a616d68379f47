"""The tools that find things: search_codebase, list_directory and find_file."""

from __future__ import annotations

import asyncio
from itertools import groupby, islice
from typing import Any

from services.code_executor.arguments import FindFile, ListDirectory, SearchCodebase
from services.code_executor.documents import Document, open_document
from services.code_executor.errors import ContentRefused
from services.code_executor.fragments import Budget, Fragment, merge_ranges
from services.code_executor.limits import Limits
from services.code_executor.manifest import DIRECTORY
from services.code_executor.paths import directory, file_or_directory, show_path
from services.code_executor.results import Result, make_result
from services.code_executor.ripgrep import Hit, Outcome, Query, Ripgrep
from services.code_executor.snapshots import Snapshot
from services.code_executor.tree import find_entries, list_entries, remark


class Searching:
    """Finds text, folders' contents and files' names."""

    def __init__(self, ripgrep: Ripgrep, limits: Limits) -> None:
        self._ripgrep = ripgrep
        self._limits = limits

    async def search_codebase(self, snapshot: Snapshot, arguments: SearchCodebase) -> Result:
        """Finds lines that hold a text or match a regular expression."""
        query = Query(
            arguments.pattern,
            is_regex=arguments.regex,
            ignore_case=arguments.ignore_case,
            path=file_or_directory(snapshot, arguments.path),
            globs=(arguments.glob,) if arguments.glob else (),
        )
        max_hits = min(arguments.max_results, self._limits.max_results)
        outcome = await self._ripgrep.hits(snapshot, query, max_hits)
        return await asyncio.to_thread(self._shown, snapshot, query, outcome, arguments.context_lines)

    async def list_directory(self, snapshot: Snapshot, arguments: ListDirectory) -> Result:
        """Lists what a folder holds."""
        path = directory(snapshot, arguments.path)
        rows = list(islice(list_entries(snapshot, path, arguments.depth), self._limits.max_results + 1))
        cuts = _cut(rows, self._limits.max_results, "entries")
        entries = [
            {"path": entry, "kind": kind, "size_bytes": 0 if kind == DIRECTORY else size, "remark": note}
            for entry, kind, size, note in rows
        ]
        listing = [_line(entry, kind, size, note) for entry, kind, size, note in rows]
        heading = f"{show_path(path) if path else 'the repository'} at commit {snapshot.commit[:12]}"
        if not rows:
            heading += " is empty"
        return make_result(snapshot, heading=heading, listing=listing, cuts=cuts, entries=entries)

    async def find_file(self, snapshot: Snapshot, arguments: FindFile) -> Result:
        """Finds files by name."""
        path = directory(snapshot, arguments.path)
        found = await asyncio.to_thread(find_entries, snapshot, arguments.name, path)
        wanted = min(arguments.max_results, self._limits.max_results)
        total = len(found)
        cuts = _cut(found, wanted, "paths")
        entries = [
            {"path": entry.path, "kind": entry.kind, "size_bytes": entry.size_bytes, "remark": remark(entry)}
            for entry in found
        ]
        listing = [_line(entry.path, entry.kind, entry.size_bytes, remark(entry)) for entry in found]
        heading = f"{total} paths match {arguments.name!r} at commit {snapshot.commit[:12]}"
        return make_result(snapshot, heading=heading, listing=listing, cuts=cuts, entries=entries)

    def _shown(self, snapshot: Snapshot, query: Query, outcome: Outcome, context: int) -> Result:
        budget = Budget(self._limits)
        fragments: list[Fragment] = []
        matches: list[dict[str, Any]] = []
        for path, hits in groupby(outcome.hits, key=lambda hit: hit.path):
            try:
                document = open_document(snapshot, snapshot.entries[path])
            except ContentRefused as refused:
                if refused.reason != "binary_file":
                    budget.cut(refused.message)
                continue  # a binary file that happens to hold the text says nothing
            lines = [hit for hit in hits if hit.line <= len(document.lines)]
            matches += [_match(hit) for hit in lines]
            fragments += _fragments(document, lines, context, budget)
        if outcome.cut:
            budget.cut(outcome.cut)
        heading = f"{len(matches)} lines match at commit {snapshot.commit[:12]}"
        if unread := snapshot.not_kept(query.path):
            heading += f"; {unread} files, binary or too large, were not searched"
        return make_result(snapshot, heading=heading, fragments=fragments, cuts=budget.cuts, matches=matches)


def _fragments(document: Document, hits: list[Hit], context: int, budget: Budget) -> list[Fragment]:
    ranges = merge_ranges((max(1, hit.line - context), hit.line + context) for hit in hits)
    taken = (budget.take(document, first, last) for first, last in ranges)
    return [fragment for fragment in taken if fragment is not None]


def _match(hit: Hit) -> dict[str, Any]:
    return {"path": hit.path, "line": hit.line, "column": hit.column}


def _cut(rows: list[Any], most: int, what: str) -> list[str]:
    """Shortens a list in place and says so."""
    if len(rows) <= most:
        return []
    del rows[most:]
    return [f"more than {most} {what}; ask for a folder further down"]


def _line(path: str, kind: str, size: int, note: str) -> str:
    about = f" ({note})" if note else ""
    if kind == DIRECTORY:
        return f"{show_path(path)}/  {size} entries{about}"
    measure = f"  {size} bytes" if kind == "file" else f"  {kind}"
    return f"{show_path(path)}{measure}{about}"
