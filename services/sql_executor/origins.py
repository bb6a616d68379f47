"""Where the value of an expression is from: from a table, or from the query, which may say what it likes.

A value is read only where its expression proves it: a column, what is counted, and what functions and operators make
of nothing else. A literal beside what is read must not be able to take its place: it may scale it, round it, or say
which part of it is wanted. Everything else is stated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Final

from postgast import pg_query_pb2 as pb

from services.sql_executor import grammar


class Origin(Enum):
    """Where a value is from, and of a literal what it can do to what it stands beside."""

    READ = auto()
    # NULL, false, 0, and texts without a letter or a digit. `coalesce(sum(x), 0)` stays read by it: that there is
    # nothing to add up, and that it adds up to nothing, are the same finding.
    NOTHING = auto()
    # 1 and true: what `sum(CASE WHEN … THEN 1 ELSE 0 END)` counts with.
    ONE = auto()
    # A factor between two units: a power of ten, 60, 1024. Any other would put its own digits into the value.
    UNIT = auto()
    NUMBER = auto()
    STATED = auto()


_UNITS: Final = frozenset(map(Decimal, (8, 24, 60, 1440, 3600, 86400, *(1024**power for power in range(1, 5)))))
_SAYS_NOTHING: Final = re.compile(r"[\s!-/:-@\[-`{-~]*")
_FACTORS: Final = frozenset({Origin.ONE, Origin.UNIT})
_LITERALS: Final = frozenset({Origin.ONE, Origin.UNIT, Origin.NUMBER})
_PATHS: Final = frozenset({"->", "->>", "#>", "#>>"})
_TRUTHS: Final = grammar.COMPARISONS | grammar.LIKES | grammar.MATCHES | grammar.CONTAINMENTS | {"?", "?|", "?&", "^@"}
# Of these one argument is what the value is a part or a rounding of; the others say which.
_PARTS_OF_FIRST: Final = """
    round trunc left right substring substr split_part trim btrim ltrim rtrim nth_value string_to_array string_to_table
    json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text array_length
"""
_PARTS_OF_SECOND: Final = "date_trunc date_part extract date_bin timezone"
_SUBJECTS: Final = {**dict.fromkeys(_PARTS_OF_FIRST.split(), 0), **dict.fromkeys(_PARTS_OF_SECOND.split(), 1)}
# Their values are between or beside what they are given.
_INVENTS: Final = frozenset({"generate_series", "generate_subscripts"})
# Letters that stand for a part of a time; any other letter, and any digit, would stand for itself.
_TIME_FORMAT: Final = re.compile(r'(?:YYYY|IYYY|MM|Mon|Month|DD|Dy|Day|IW|HH24|HH12|HH|MI|SS|MS|US|TZ|OF|[^\w"\\])*')


def origin_of(node: pb.Node, parts: Sequence[Origin], *, of_tables: bool) -> Origin:
    """Returns where an expression's value is from; `parts` are those of its own expressions, in their order.

    `of_tables` tells whether the rows that it stands in are of a table. Columns and subqueries are not told here.
    """
    kind = node.WhichOneof("node") or ""
    if kind == "a_const":
        return _literal(node.a_const)
    if kind == "func_call":
        return _called(node.func_call, parts, of_tables=of_tables)
    if kind == "a_expr":
        return _operated(node.a_expr, parts)
    if kind == "case_expr":
        return _chosen(node.case_expr, parts)
    if kind == "type_cast":
        return _cast(node.type_cast, parts)
    how = _OTHERS.get(kind)
    return how(parts) if how is not None else Origin.STATED


def _literal(constant: pb.A_Const) -> Origin:
    kind = constant.WhichOneof("val")
    if constant.isnull or kind is None:
        return Origin.NOTHING
    if kind == "boolval":
        return Origin.ONE if constant.boolval.boolval else Origin.NOTHING
    if kind == "sval":
        return Origin.NOTHING if _SAYS_NOTHING.fullmatch(constant.sval.sval) else Origin.STATED
    try:
        number = Decimal(constant.ival.ival if kind == "ival" else constant.fval.fval)
    except InvalidOperation:  # a bit string, or one of the other ways to write a number
        return Origin.STATED
    if number in (0, 1):
        return Origin.ONE if number else Origin.NOTHING
    is_power_of_ten = number > 0 and number.normalize().as_tuple().digits == (1,)
    return Origin.UNIT if is_power_of_ten or number in _UNITS else Origin.NUMBER


def _all(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what may be any of its parts, or is made of all of them."""
    is_read = Origin.READ in parts and all(part in (Origin.READ, Origin.NOTHING) for part in parts)
    return Origin.READ if is_read else Origin.STATED


def _any(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is found out about its parts: true or false, by what is stored."""
    return Origin.READ if Origin.READ in parts else Origin.STATED


def _first(parts: Sequence[Origin]) -> Origin:
    return parts[0] if parts else Origin.STATED


def _last(parts: Sequence[Origin]) -> Origin:
    return parts[-1] if parts else Origin.STATED


def _called(call: pb.FuncCall, parts: Sequence[Origin], *, of_tables: bool) -> Origin:
    name = call.funcname[-1].string.sval
    arguments = parts[: len(call.args)]
    if name == "sum":
        is_count = of_tables and list(arguments) == [Origin.ONE]
        return Origin.READ if is_count else _all(arguments)
    if name in grammar.COUNTING:
        return Origin.READ if of_tables else Origin.STATED
    if call.agg_within_group:
        ordered = parts[len(call.args) + call.HasField("agg_filter") :]
        return _all(ordered[: len(call.agg_order)])
    if name in _INVENTS:
        return Origin.STATED
    if name in _SUBJECTS:
        return _all(arguments[_SUBJECTS[name] : _SUBJECTS[name] + 1])
    if name in ("lag", "lead"):  # how far, and what there is instead
        return _all([*arguments[:1], *arguments[2:]])
    if name == "to_char" and _TIME_FORMAT.fullmatch(call.args[-1].a_const.sval.sval):
        return _all(arguments[:1])
    return _all(arguments)


def _operated(operation: pb.A_Expr, parts: Sequence[Origin]) -> Origin:
    if operation.kind == pb.AEXPR_NULLIF:
        return _first(parts)
    name = operation.name[-1].string.sval
    if operation.kind != pb.AEXPR_OP or name in _TRUTHS:
        return _any(parts)
    if name in _PATHS:
        return _first(parts)
    if len(parts) == 1 and name in ("-", "+"):
        return Origin.UNIT if parts[0] is Origin.ONE else parts[0]
    if name in ("-", "/") and operation.lexpr == operation.rexpr:
        return Origin.STATED  # 0 and 1, whatever is stored
    if name in ("*", "/") and len(parts) == 2:
        return _scaled(name, *parts)
    return _all(parts)


def _scaled(name: str, one: Origin, other: Origin) -> Origin:
    if one in _LITERALS and other in _LITERALS:
        return Origin.UNIT if {one, other} <= _FACTORS else Origin.NUMBER
    scales = _FACTORS | {Origin.READ}
    by = scales | _LITERALS if name == "/" else scales
    return Origin.READ if Origin.READ in (one, other) and one in scales and other in by else Origin.STATED


def _chosen(case: pb.CaseExpr, parts: Sequence[Origin]) -> Origin:
    """Returns the origin of a CASE; `parts` are its subject, each condition with its result, and what else it is."""
    branches = parts[case.HasField("arg") :]
    conditions = branches[0 : 2 * len(case.args) : 2]
    results = [*branches[1 : 2 * len(case.args) : 2], *branches[2 * len(case.args) :]]
    if {Origin.ONE} < {*results, Origin.NOTHING} <= {Origin.ONE, Origin.NOTHING}:
        # Whether something is so, in figures.
        told = parts[:1] if case.HasField("arg") else conditions
        return Origin.READ if set(told) == {Origin.READ} else Origin.STATED
    return _all(results)


def _cast(cast: pb.TypeCast, parts: Sequence[Origin]) -> Origin:
    origin = _first(parts)
    is_number = cast.type_name.names[-1].string.sval in grammar.NUMBER_TYPES | {"numeric"}
    return Origin.STATED if origin in _LITERALS and not is_number else origin


_OTHERS: Final[dict[str, Callable[[Sequence[Origin]], Origin]]] = {
    "bool_expr": lambda parts: Origin.READ if set(parts) == {Origin.READ} else Origin.STATED,
    "null_test": _any,
    "boolean_test": _any,
    "coalesce_expr": _all,
    "min_max_expr": _all,
    "a_array_expr": _all,
    "row_expr": _all,
    "list": _all,
    "a_indirection": _last,
    "collate_clause": _last,
    "named_arg_expr": _first,
    "sort_by": _first,
}
