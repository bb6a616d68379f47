"""The line of a graph's file that makes a conditional edge, with the table in the place of the path function."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

from services.runtime.hosted.adoption.module_names import bound_in
from services.runtime.hosted.lifting.lifted import INSIDE

_MADE_BY: Final = "add_conditional_edges"
_COMMENT: Final = re.compile(rb"#[^\r\n]*")


class TableEdge(NamedTuple):
    """A conditional edge, by the name of its decisions and its node, with its table and the function before it."""

    router: str
    node: str
    table: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Edit:
    """A file before and after, with edges that name tables, and for each other edge the line to write by hand."""

    before: bytes
    after: bytes
    encoding: str = "utf-8"
    edges: Sequence[TableEdge] = ()
    by_hand: Sequence[str] = ()

    def difference(self, name: str) -> Iterator[str]:
        """Returns the lines that show it."""
        before, after = (
            each.decode(self.encoding, "replace").splitlines(keepends=True) for each in (self.before, self.after)
        )
        return difflib.unified_diff(before, after, name, f"{name} with tables")


def edited(source: bytes, names: Mapping[str, Any], module: str, edges: Sequence[TableEdge]) -> Edit:
    """Returns a graph's file with the tables of a module at its edges; `names` are what the file's module has.

    An edge is written where one call makes it for certain: that which is given the function which the graph has there.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        file = _File(source.decode(encoding).encode(), names, module)
        changes, by_hand = dict[TableEdge, _Change](), list[str]()
        nodes = [_last(each.node) for each in edges]
        for edge in edges:
            change = file.change(edge) if nodes.count(_last(edge.node)) == 1 else None
            if change is None or not _is_made(file.after([change], [edge.table]), edge):
                by_hand.append(_line(edge))
            else:
                changes[edge] = change
        after = file.after(list(changes.values()), [each.table for each in changes]).decode().encode(encoding)
    except (SyntaxError, UnicodeError):
        # It is not what was loaded, or its encoding has no letters for the module's name.
        return Edit(source, source, by_hand=list(map(_line, edges)))
    return Edit(source, after, encoding, list(changes), by_hand)


class _Change(NamedTuple):
    """What takes the place of some bytes of a file."""

    begin: int
    end: int
    new: bytes


class _File:
    def __init__(self, text: bytes, names: Mapping[str, Any], module: str) -> None:
        self._text = text
        self._names = names
        self._module = module
        self._tree = ast.parse(text.decode())
        self._lines = text.splitlines(keepends=True)
        self._bound = list(bound_in(self._tree))

    def change(self, edge: TableEdge) -> _Change | None:
        """Returns what makes a call name an edge's table; None where it isn't known for certain which, or how."""
        node = _last(edge.node)
        calls = [each for each in ast.walk(self._tree) if isinstance(each, ast.Call) and _is_edge_of(each, node)]
        if len(calls) != 1 or self._is_taken(edge.table) or not self._is(calls[0].args[1], edge.function):
            return None
        call = calls[0]
        first, second, last = call.args[0], call.args[1], [*call.args, *(each.value for each in call.keywords)][-1]
        # What stands between is commas, comments, and parentheses around what is given.
        between = self._text[self._end(first) : self._begin(second)]
        closing = _COMMENT.sub(b"", between).partition(b",")[0].count(b")")
        rest = self._text[self._end(last) : self._end(call) - 1]
        rest = re.sub(rb"(#[^\r\n]*)|\)", lambda each: each[1] or b"", rest)
        return _Change(self._end(first), self._end(call) - 1, b")" * closing + b", " + edge.table.encode() + rest)

    def after(self, changes: Sequence[_Change], tables: Sequence[str]) -> bytes:
        """Returns the file with changes, and with the import of tables."""
        text = self._text
        for begin, end, new in sorted(changes, reverse=True):
            text = text[:begin] + new + text[end:]
        missing = sorted(each for each in tables if not self._is_imported(each))
        if not missing:
            return text
        # Imports are above each of the changes, or on its line.
        at = sum(map(len, self._lines[: self._last_import]))
        newline = next((end for end in (b"\r\n", b"\n", b"\r") if self._lines and self._lines[0].endswith(end)), b"\n")
        return text[:at] + f"from {self._module} import {', '.join(missing)}".encode() + newline + text[at:]

    def _is(self, given: ast.expr, function: Callable[..., Any]) -> bool:
        """Whether what a call is given is a function, whenever the call is made."""
        code: CodeType | None = getattr(function, "__code__", None)
        made_at = (code.co_name, code.co_firstlineno) if code else None
        is_here = code is not None and code.co_filename == self._names.get("__file__")
        if isinstance(given, ast.Lambda):
            lambdas = (each for each in ast.walk(self._tree) if isinstance(each, ast.Lambda))
            alone = [each.lineno for each in lambdas].count(given.lineno) == 1
            return is_here and alone and made_at == ("<lambda>", given.lineno)
        if isinstance(given, ast.Name) and is_here:
            match [node for name, node in self._bound if name == given.id]:
                case [ast.FunctionDef() | ast.AsyncFunctionDef() as made] if not made.decorator_list:
                    return made_at == (made.name, made.lineno)
        return self._value(given) is function

    def _value(self, given: ast.expr) -> Any:
        """Returns what a name of the module stands for; None for one that may stand for something else, too."""
        if isinstance(given, ast.Attribute):
            of = self._value(given.value)
            return vars(of).get(given.attr) if isinstance(of, ModuleType) else None
        if not isinstance(given, ast.Name):
            return None
        # Of the module itself: no parameter, variable of a loop, or name that is given something twice.
        own: list[ast.AST] = [*self._tree.body]
        own += [target for each in own if isinstance(each, ast.Assign) for target in each.targets]
        own += [each.target for each in own if isinstance(each, ast.AnnAssign)]
        nodes = [node for name, node in self._bound if name == given.id]
        return self._names.get(given.id) if len(nodes) <= 1 and all(each in own for each in nodes) else None

    def _is_taken(self, table: str) -> bool:
        """Whether the file has something else by the name of a table."""
        if self._is_imported(table):
            return [name for name, _ in self._bound].count(table) > 1
        return table in self._names or any(name == table for name, _ in self._bound)

    def _is_imported(self, table: str) -> bool:
        imports = [each for each in self._tree.body if isinstance(each, ast.ImportFrom) and each.module == self._module]
        return any(name.name == table and not name.asname for each in imports for name in each.names)

    @property
    def _last_import(self) -> int:
        """The line of the last import that the file begins with; where it begins with none, that before its code."""
        last = 0
        for number, statement in enumerate(self._tree.body):
            is_doc = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_doc and not isinstance(statement, ast.Import | ast.ImportFrom):
                decorated = getattr(statement, "decorator_list", [])
                return last or min(each.lineno for each in (statement, *decorated)) - 1
            last = statement.end_lineno or 0
        return last

    def _begin(self, node: ast.expr) -> int:
        return self._at(node.lineno, node.col_offset)

    def _end(self, node: ast.expr) -> int:
        return self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _at(self, line: int, column: int) -> int:
        """Returns where a place is, in bytes, as the syntax tree counts."""
        return sum(map(len, self._lines[: line - 1])) + column


def _is_made(text: bytes, edge: TableEdge) -> bool:
    """Whether a file has an edge with its table, and nothing else is given to the call."""
    try:
        tree = ast.parse(text.decode())
    except SyntaxError:
        return False
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _is_edge_of(each, _last(edge.node))]
    given = [(call.args[1], len(call.args) + len(call.keywords)) for call in calls]
    return [count for one, count in given if isinstance(one, ast.Name) and one.id == edge.table] == [2]


def _line(edge: TableEdge) -> str:
    node = _last(edge.node)
    return f"{_MADE_BY}({_shown(node)}, {edge.table})"


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
