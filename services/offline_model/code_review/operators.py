"""What operators, indexes and slices come to, on values."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services.offline_model.code_review.objects import cell_of
from services.offline_model.code_review.values import Constant, Value, concatenated, constant, listed

MAX_NUMBER = 10**9
_NUMERIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip


def binary(node: ast.BinOp, left: Value, right: Value) -> Value:
    """Returns what an operator makes of the values on its two sides."""
    if isinstance(node.op, ast.Mod) and left.only is not None and left.only.kind is str:
        given = right.items if isinstance(node.right, ast.Tuple) and right.items is not None else (right,)
        found = _percent(left.only.value, given)
        return found or Value(left.sources | right.sources).decoded
    if left.items is not None and right.items is not None and isinstance(node.op, ast.Add):
        return listed([*left.items, *right.items], cell_of(node))
    if (folded := _folded(type(node.op), left, right)) is not None:
        return folded
    if isinstance(node.op, ast.Add) and left.items is None is right.items:
        return concatenated([left, right])
    found = Value(left.sources | right.sources)
    # A text that is not known may make a character of a number.
    return found.decoded if isinstance(node.op, ast.Mod) and not left.sources else found


def unary(node: ast.UnaryOp, value: Value) -> Value:
    """Returns what an operator makes of the value behind it."""
    if isinstance(node.op, ast.Not):
        return Value() if value.truth is None else constant(not value.truth)
    if isinstance(node.op, ast.USub) and value.only is not None and value.only.kind in (int, float):
        return constant(-value.only.value)
    return Value(value.sources)


def indexed(holder: Value, index: Value) -> Value:
    """Returns what a list or a text holds at an index."""
    at = index.only.value if index.only is not None and index.only.kind is int else None
    if holder.items is not None:
        known = at is not None and -len(holder.items) <= at < len(holder.items)
        return holder.items[at] if known and at is not None else holder.element
    if holder.only is not None and holder.only.kind is str and at is not None:
        try:
            return constant(holder.only.value[at])
        except IndexError:
            return Value()
    return Value(holder.sources).changed


def sliced(holder: Value, ends: Sequence[Constant | None]) -> Value:
    """Returns a slice of a list or a text; `ends` are its start, stop and step, None for one that is not known."""
    if all(end is not None for end in ends):
        cut = slice(*(end.value for end in ends if end))
        try:
            if holder.only is not None and holder.only.kind is str:
                return constant(holder.only.value[cut])
            if holder.items is not None:
                return listed(holder.items[cut])
        except (TypeError, ValueError):
            return Value(holder.sources).changed
    return Value(holder.sources).changed


def _folded(kind: type, left: Value, right: Value) -> Value | None:
    """Returns what an operator makes of two numbers; None when they are not known, or are no numbers."""
    operate, one, other = _NUMERIC.get(kind), left.only, right.only
    if operate is None or one is None or other is None or not {one.kind, other.kind} <= {int, float, bool}:
        return None
    try:
        result = operate(one.value, other.value)
    except (ArithmeticError, ValueError):
        return None
    return constant(result) if abs(result) < MAX_NUMBER else None


def _percent(template: str, given: Sequence[Value]) -> Value | None:
    """Returns what `template % given` gives; None when the template is beyond this."""
    parts: list[Value] = []
    left = list(given)
    for piece in re.split(r"(%%|%\(\w+\)s|%[sdr])", template):
        if piece == "%%":
            parts.append(constant("%"))
        elif piece in ("%s", "%d"):
            if not left:
                return None
            parts.append(left.pop(0))
        elif "%" in piece:
            return None
        else:
            parts.append(constant(piece))
    return None if left else concatenated(parts)
