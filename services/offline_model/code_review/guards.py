"""Checks that stop a value before it is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from services.offline_model.code_review.shown import Function, bare_name

_STOPS = frozenset({"abort", "exit", "fail", "HTTPException"})
_GOOD_TESTS = frozenset({"isdigit", "isalnum", "isdecimal", "isidentifier", "isnumeric", "is_relative_to"})
_SAME_VALUE = frozenset({"lower", "upper", "casefold", "resolve"})
_ANYTHING = re.compile(r"\.[*+]|\\S|\\W|\\D|\[\^")


def guard_of(name: str, function: Function, line: int) -> int:
    """Returns the line of a check on a name that every way to a line passes, or 0; a new value undoes it."""
    found = 0
    for statement, holds_line in on_the_way(function.body, line):
        if isinstance(statement, ast.If):
            inside = holds_line and _within(statement.body, line)
            past = not holds_line and _stops(statement.body)
            if (inside and _admits(statement.test, name)) or (past and _refuses(statement.test, name)):
                found = statement.lineno
        elif not holds_line and _binds(statement, name):
            found = 0
    return found


def on_the_way(body: Sequence[ast.stmt], line: int) -> Iterator[tuple[ast.stmt, bool]]:
    """Yields the statements that run before a line whatever way is taken, and those that hold it."""
    for statement in body:
        if statement.lineno > line:
            return
        holds_line = line <= (statement.end_lineno or statement.lineno)
        yield statement, holds_line
        if holds_line:
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(statement, name, None)
                if isinstance(inner, list) and inner and _within(inner, line):
                    yield from on_the_way(inner, line)


def _within(body: list[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _binds(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(statement)
    )


def _stops(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Raise | ast.Return | ast.Continue | ast.Break):
        return True
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and bare_name(last.value.func) in _STOPS


def _refuses(test: ast.expr, name: str) -> bool:
    """Tells whether a test holds for every value of the name that is not a known good one."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_refuses(part, name) for part in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _admits(test.operand, name)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotIn):
        return _is(test.left, name) and _is_fixed(test.comparators[0])
    return False


def _admits(test: ast.expr, name: str) -> bool:
    """Tells whether a test holds only for known good values of the name."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_admits(part, name) for part in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        return _is(test.left, name) and _is_fixed(test.comparators[0])
    if not isinstance(test, ast.Call):
        return False
    tested = bare_name(test.func)
    if tested == "fullmatch":
        return any(_is(part, name) for part in test.args) and _is_strict(test)
    receiver = test.func.value if isinstance(test.func, ast.Attribute) else None
    return tested in _GOOD_TESTS and receiver is not None and _is(receiver, name)


def _is(node: ast.expr, name: str) -> bool:
    """Tells whether an expression is the name's value itself, and not a part of it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_VALUE:
        node = node.func.value
    return isinstance(node, ast.Name) and node.id == name


def _is_fixed(node: ast.expr) -> bool:
    """Tells whether a collection is the program's own: a literal, or a name written as constants are."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return all(isinstance(part, ast.Constant) for part in (node.keys if isinstance(node, ast.Dict) else node.elts))
    name = bare_name(node)
    return bool(name) and name == name.upper()


def _is_strict(test: ast.Call) -> bool:
    """Tells whether a pattern lets only listed characters through; one that is not shown may let anything."""
    first = test.args[0] if test.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and not _ANYTHING.search(first.value)
