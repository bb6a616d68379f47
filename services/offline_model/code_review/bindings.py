"""What names are given, in the code that was shown: as far as it can be told, at the place where they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.offline_model.code_review.guards import on_the_way
from services.offline_model.code_review.shown import Function, ShownFile, dotted

# Methods that put what they are given into the value they are called on.
_FILLS = frozenset(
    {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "write", "writelines", "__setitem__"}
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class Bound:
    """What a name may hold; `replaced` when what it held on entry is surely gone."""

    values: tuple[ast.expr, ...]
    replaced: bool


def bound_at(name: str, body: Sequence[ast.stmt], use: ast.expr) -> Bound:
    """Returns what a name may hold where it is used in a function's body, or in a module's."""
    line = use.lineno
    start = max(_surely_bound(name, body, use), default=0)
    nodes = [node for statement in body for node in ast.walk(statement)]
    loops = [loop for loop in nodes if isinstance(loop, _LOOPS) and start < loop.lineno <= line <= _end(loop)]
    values = []
    for node in nodes:
        at = getattr(node, "lineno", line)
        again = any(loop.lineno <= at <= _end(loop) for loop in loops)
        if start <= at and (again or (at <= line and not _is_within(use, node))):
            values += _given(name, node)
    return Bound(tuple(values), start > 0)


def module_values(name: str, file: ShownFile) -> list[ast.expr]:
    """Returns everything that a name of a module is given, whichever way the program takes."""
    found = [value for node in _outside_functions(file.statements) for value in _given(name, node)]
    if not found:
        return []
    for function in file.functions:
        declared = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(function))
        for node in ast.walk(function):
            found += _given(name, node) if declared else _put_into(name, node)
    return found


def self_values(attribute: str, file: ShownFile) -> list[ast.expr]:
    """Returns the expressions that `self.attribute` is given."""
    wanted = f"self.{attribute}"
    found: list[ast.expr] = []
    for node in file.nodes:
        targets = _targets(node)
        if any(isinstance(target, ast.Attribute) and dotted(target) == wanted for target in targets):
            found += _values(node)
        found += _put_into(wanted, node)
    return found


def _surely_bound(name: str, body: Sequence[ast.stmt], use: ast.expr) -> Iterator[int]:
    """Yields the lines of statements that every way to a use passes, and that give the name a new value."""
    for statement, holds_line in on_the_way(body, use.lineno):
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            bound = (
                not holds_line
                and bool(_values(statement))
                and any(_holds(target, name) for target in _targets(statement))
            )
        elif isinstance(statement, ast.With | ast.AsyncWith):
            names = [item.optional_vars for item in statement.items if item.optional_vars is not None]
            bound = any(_holds(target, name) for target in names) and not _is_head(use, statement)
        elif isinstance(statement, ast.For | ast.AsyncFor):
            bound = holds_line and _holds(statement.target, name) and not _is_head(use, statement)
        else:
            bound = False
        if bound:
            yield statement.lineno


def _holds(target: ast.AST, name: str) -> bool:
    """Tells whether a target is a name, or a list of targets with it."""
    return isinstance(target, ast.Name | ast.Tuple | ast.List | ast.Starred) and any(
        isinstance(part, ast.Name) and part.id == name for part in ast.walk(target)
    )


def _is_head(use: ast.expr, statement: ast.With | ast.AsyncWith | ast.For | ast.AsyncFor) -> bool:
    return use.lineno < statement.body[0].lineno


def _is_within(use: ast.expr, node: ast.AST) -> bool:
    """Tells whether a use stands in the very statement, which reads before it writes."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
        return False
    return node.lineno <= use.lineno <= _end(node)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _given(name: str, node: ast.AST) -> list[ast.expr]:
    """Returns what a node gives a name: a new value, or something put into the one it has."""
    if isinstance(node, ast.Assign):
        pairs = [_paired(target, node.value, name) for target in node.targets if _holds(target, name)]
        return [*(value for pair in pairs for value in pair), *_put_into(name, node)]
    if any(_holds(target, name) for target in _targets(node)):
        return _values(node)
    return _put_into(name, node)


def _paired(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr]:
    """Returns the part of a value that goes to a name, when both sides list as many."""
    sides = (target, value)
    if not all(isinstance(side, ast.Tuple | ast.List) for side in sides):
        return [value]
    targets, values = target.elts, value.elts  # type: ignore[attr-defined]
    if len(targets) != len(values) or any(isinstance(part, ast.Starred) for part in [*targets, *values]):
        return [value]
    return [part for to, part in zip(targets, values, strict=True) if _holds(to, name)]


def _put_into(name: str, node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        filled = any(isinstance(target, ast.Subscript) and dotted(target.value) == name for target in targets)
        return [node.value] if filled else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS:
        filled = dotted(node.func.value) == name
        return [*node.args, *(keyword.value for keyword in node.keywords)] if filled else []
    return []


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.AsyncFor | ast.comprehension):
        return [node.target]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [node.optional_vars]
    return []


def _values(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.withitem):
        return [node.context_expr]
    value = getattr(node, "value", None)
    return [value] if isinstance(value, ast.expr) else []


def _outside_functions(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        yield node
        yield from _outside_functions(ast.iter_child_nodes(node))
