"""How long the values of literals, operators and casts are, and how many rows a set-returning function has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from postgast import pg_query_pb2 as pb

from services.sql_executor import grammar
from services.sql_executor.sizes import (
    LONG_NUMBER,
    STORED_MEAN,
    VALUE,
    Size,
    literal,
    longest,
    parsed,
    series_rows,
    spelled_out,
    together,
    whole_number,
)

_TRUTHS: Final = grammar.COMPARISONS | grammar.LIKES | grammar.MATCHES | grammar.CONTAINMENTS | {"?", "?|", "?&", "^@"}


def size_of_constant(constant: pb.A_Const) -> Size:
    """Returns the size of a literal."""
    kind = constant.WhichOneof("val")
    if kind == "sval":
        return spelled_out(constant.sval.sval)
    if kind == "fval":
        return Size(LONG_NUMBER if "e" in constant.fval.fval.lower() else len(constant.fval.fval))
    return VALUE


def size_of_operation(kind: int, name: str, sizes: Sequence[Size]) -> Size:
    """Returns the size of what an operator makes of its two operands; `kind` is one of Postgres' `AEXPR_*`."""
    if kind == pb.AEXPR_NULLIF:
        return longest(sizes)
    if kind != pb.AEXPR_OP or name in _TRUTHS:
        return VALUE
    if name == "||":
        return together([*sizes, Size(8)])
    if name == "^":
        return Size(LONG_NUMBER)
    if name in (
        "*",
        "/",
    ):  # as many digits as both have; what comes from the step before in a recursion grows with each
        whole = together(sizes)
        return Size(LONG_NUMBER if whole.recursive else min(max(whole.fixed, VALUE.fixed), LONG_NUMBER))
    size = longest(sizes)
    if name in ("+", "%"):
        return Size(min(max(size.fixed, VALUE.fixed), LONG_NUMBER))
    return size._replace(recursive=0) if name == "-" else size


def size_of_cast(cast: pb.TypeCast, name: str, limit: int, size: Size) -> Size:
    """Returns the size of a value of that size once it is of the type `name`, with `limit` characters or digits."""
    has_digits = literal(cast.arg) is not None or _is_json(cast.arg)
    if name in ("json", "jsonb") or (name == "numeric" and cast.type_name.array_bounds):
        return size if has_digits else parsed(size)
    if cast.type_name.array_bounds:
        return size
    if name == "numeric":
        return _size_of_number(cast, limit, size)
    if name in ("text", "varchar", "bpchar"):
        return size._replace(texts=1) if name == "text" or not limit else Size(limit, texts=1)
    return VALUE


def _size_of_number(cast: pb.TypeCast, limit: int, size: Size) -> Size:
    if limit:  # as many digits, and as many places
        return longest([VALUE, Size(max(abs(whole_number(node) or 0) for node in cast.type_name.typmods) + 3)])
    text = literal(cast.arg)
    if text is not None and "e" not in text.lower():
        return Size(max(len(text), VALUE.fixed))
    return longest([VALUE, size]) if size.is_number else Size(LONG_NUMBER)


def _is_json(node: pb.Node) -> bool:
    """Tells whether an expression is JSON already, with all digits of its numbers."""
    name = node.func_call.funcname[-1].string.sval if node.WhichOneof("node") == "func_call" else ""
    return "json" in name and not name.endswith("_text")


def set_rows(name: str, sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> float:
    """Returns the most rows that a set-returning function has."""
    if name == "generate_series":
        return series_rows(nodes)
    size = longest(sizes)
    return math.inf if size.recursive else max(1, size.fixed + size.stored * STORED_MEAN)
