"""The line of a graph's file that makes a conditional edge, with the table in the place of the path function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from services.runtime.hosted.lifting.lifted import INSIDE

_MADE_BY = "add_conditional_edges"


@dataclass(frozen=True)
class Edit:
    """A file's new text with so many edges, and for each other, which was not found for certain, the line to write."""

    text: str
    count: int
    by_hand: Sequence[str] = ()


def edited(text: str, module: str, edges: Sequence[tuple[str, str]]) -> Edit:
    """Returns a graph's file with the tables of a module at its edges, which are nodes and the routers behind them."""
    tree, by_hand, changes = ast.parse(text), list[str](), list[tuple[int, int, str]]()
    names = [_last(node) for node, _ in edges]
    starts = _starts_of_lines(text)
    encoded = text.encode()
    imported = []
    for place, router in edges:
        node = _last(place)
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _is_edge_of(each, node)]
        if len(calls) != 1 or names.count(node) > 1:
            by_hand.append(f"{_MADE_BY}({_shown(node)}, {router})")
            continue
        call = calls[0]
        given = [*call.args, *(each.value for each in call.keywords)]
        first, last = given[0], given[-1]
        begin = starts[(first.end_lineno or 0) - 1] + (first.end_col_offset or 0)
        end = starts[(last.end_lineno or 0) - 1] + (last.end_col_offset or 0)
        changes.append((begin, end, f", {router}"))
        imported.append(router)
    for begin, end, new in sorted(changes, reverse=True):
        encoded = encoded[:begin] + new.encode() + encoded[end:]
    made = encoded.decode()
    if imported:
        made = _with_import(made, f"from {module} import {', '.join(sorted(imported))}")
    ast.parse(made)
    return Edit(made, len(imported), by_hand)


def _last(place: str) -> str:
    """Returns the name that a node has in its own graph."""
    return place.rpartition(INSIDE)[2]


def _is_edge_of(call: ast.Call, node: str) -> bool:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == _MADE_BY):
        return False
    if len(call.args) < 2 or any(isinstance(each, ast.Starred) for each in call.args):
        return False
    if any(each.arg not in ("path_map",) for each in call.keywords):
        return False
    source = call.args[0]
    if isinstance(source, ast.Constant):
        return bool(source.value == node)
    return isinstance(source, ast.Name) and source.id == "START" and node == "__start__"


def _shown(node: str) -> str:
    return "START" if node == "__start__" else f'"{node}"'


def _starts_of_lines(text: str) -> list[int]:
    """Returns where each line begins, in bytes, as the syntax tree counts."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _with_import(text: str, line: str) -> str:
    """Adds an import behind the last of those that the file begins with."""
    if line in text.splitlines():
        return text
    tree, last = ast.parse(text), 0
    for number, statement in enumerate(tree.body):
        is_doc = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_doc and not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        last = statement.end_lineno or 0
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:last], f"{line}\n", *lines[last:]])
