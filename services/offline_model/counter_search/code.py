"""The code that was shown: parsed, whole or in pieces, and what can be told of it without running it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from services.offline_model.counter_search.run import Function

MAX_WORDS = 4


@dataclass(frozen=True)
class Code:
    """Files by path, each with its lines by number."""

    files: Mapping[str, Mapping[int, str]]

    def module(self, path: str) -> list[ast.stmt]:
        """Returns the statements of a file, or of those pieces of it that parse alone."""
        lines = self.files[path]
        last = max(lines, default=0)
        whole = _parsed("\n".join(lines.get(number, "") for number in range(1, last + 1)), 1)
        if whole is not None:
            return whole
        found: list[ast.stmt] = []
        for first, piece in _pieces(lines):
            found += _parsed("\n".join(piece), first) or []
        return found


def _parsed(text: str, first: int) -> list[ast.stmt] | None:
    lines = text.split("\n")
    # Python ends lines at carriage returns too; those of a file are numbered by line feeds.
    parts = [line.rstrip("\r").split("\r") for line in lines]
    numbers = [number for number, part in enumerate(parts, first) for _ in part]
    try:
        tree = ast.parse(textwrap.dedent("\n".join(chain.from_iterable(parts))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(numbers) == len(lines):
        ast.increment_lineno(tree, first - 1)
        return tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern):
            node.end_lineno = numbers[(node.end_lineno or node.lineno) - 1]
            node.lineno = numbers[node.lineno - 1]
    return tree.body


def _pieces(lines: Mapping[int, str]) -> Iterator[tuple[int, list[str]]]:
    """Yields runs of lines, parted where a line begins at the margin after a blank one, or where some are missing."""
    piece: list[str] = []
    first = previous = 0
    for number in sorted(lines):
        begins = bool(lines[number][:1].strip()) and not lines[number].startswith(
            (")", "]", "}", "else", "elif", "except")
        )
        if piece and (number != previous + 1 or begins):
            yield first, piece
            piece = []
        first = first if piece else number
        piece.append(lines[number])
        previous = number
    if piece:
        yield first, piece


def aliases(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Returns what names were imported as."""
    found: dict[str, str] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                found |= {one.asname: one.name for one in node.names if one.asname}
            elif isinstance(node, ast.ImportFrom):
                found |= {one.asname or one.name: f"{node.module or ''}.{one.name}" for one in node.names}
    return found


def changes_module(function: Function) -> bool:
    """Tells whether a function may leave something behind in its module."""
    for node in ast.walk(function):
        if isinstance(node, ast.Global) or (isinstance(node, ast.Name) and node.id == "globals"):
            return True
        changes = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = node.func.attr in ("append", "add", "update", "extend", "setdefault", "insert")
        if changes:
            return True
    return False


def words_of(body: Sequence[ast.stmt]) -> list[str]:
    """Returns words of a program that its checks may look for: members of collections, and what is compared with."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            parts: Sequence[ast.expr | None] = ()
            if isinstance(node, ast.Set | ast.List | ast.Tuple):
                parts = node.elts
            elif isinstance(node, ast.Dict):
                parts = node.keys
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                parts = node.args if node.func.attr in ("startswith", "endswith") else ()
            found |= {
                part.value: None for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return [word for word in found if 0 < len(word) <= 30][:MAX_WORDS]


def calls(node: ast.AST, name: str) -> bool:
    """Tells whether a function of some name is called somewhere in a node."""
    return any(
        isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] == name for part in ast.walk(node)
    )
