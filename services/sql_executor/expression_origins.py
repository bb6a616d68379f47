"""Where the value of an expression is from: from a table, or from the query, which may say what it likes.

A value is read only where its expression proves it: a column, what is counted, and what functions and operators make
of nothing else. A literal beside what is read must not be able to take its place: it may scale it, round it, or say
which part of it is wanted. Everything else is stated.

Two things may say how many as well as what: a value with a literal in it, which can be as long as the literal, and rows
that the query makes. Neither is measured or counted here: by default a function reads only what has no literal in it
(`Origin.MIXED`), and by default an aggregate only rows of tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from postgast import pg_query_pb2 as pb

from services.sql_executor import grammar
from services.sql_executor.origins import Origin, every, first, found, kept, last, measured, mixed, of_literal

_FACTORS: Final = frozenset({Origin.ONE, Origin.UNIT})
_LITERALS: Final = frozenset({Origin.ONE, Origin.UNIT, Origin.NUMBER})
_PATHS: Final = frozenset({"->", "->>", "#>", "#>>"})
_TRUTHS: Final = grammar.COMPARISONS | grammar.LIKES | grammar.MATCHES | grammar.CONTAINMENTS | {"?", "?|", "?&", "^@"}
# What these make is as good as what they are given: a literal in it stays in it. Of no other function is that assumed.
_KEEPING: Final = frozenset(
    """
    abs ceil ceiling floor sign sqrt cbrt trim_scale lower upper initcap reverse replace translate array_to_string
    array_remove trim_array unnest json_array_elements json_array_elements_text jsonb_array_elements
    jsonb_array_elements_text json_each json_each_text jsonb_each jsonb_each_text json_object_keys jsonb_object_keys
    json_strip_nulls jsonb_strip_nulls regexp_split_to_array regexp_split_to_table to_json to_jsonb row_to_json
    array_to_json first_value last_value
    """.split()  # noqa: SIM905 - a list of names
)
# Of these one argument is what the value is a part or a rounding of; the others say which.
_PARTS_OF_FIRST: Final = """
    round trunc left right substring substr split_part trim btrim ltrim rtrim nth_value string_to_array string_to_table
    json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text
"""
_PARTS_OF_SECOND: Final = "date_trunc date_part extract date_bin timezone"
_SUBJECTS: Final = {**dict.fromkeys(_PARTS_OF_FIRST.split(), 0), **dict.fromkeys(_PARTS_OF_SECOND.split(), 1)}
# How much there is of the part is for the other arguments to say.
_CUTTING: Final = frozenset({"round", "trunc", "left", "right", "substring", "substr", "split_part"})
# Of how many parts it is put together is what the query says.
_BUILDING: Final = frozenset(
    """
    concat concat_ws array_append array_prepend array_cat json_build_object jsonb_build_object json_build_array
    jsonb_build_array
    """.split()  # noqa: SIM905 - a list of names
)
# Their values are between or beside what they are given, or how many the query gives them.
_INVENTING: Final = frozenset({"generate_series", "generate_subscripts", "num_nulls", "num_nonnulls"})
# Aggregates whose value is one of those that they are given, or lies between two, however often each comes.
_PICKING: Final = frozenset(
    """
    min max any_value mode percentile_cont percentile_disc bool_and bool_or every bit_and bit_or
    """.split()  # noqa: SIM905 - a list of names
)
_RANKS: Final = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_IN_ROWS: Final = 0x4 | 0x8  # FRAMEOPTION_ROWS, FRAMEOPTION_GROUPS
# Letters that stand for a part of a time; any other letter, and any digit, would stand for itself.
_TIME_FORMAT: Final = re.compile(r'(?:YYYY|IYYY|MM|Mon|Month|DD|Dy|Day|IW|HH24|HH12|HH|MI|SS|MS|US|TZ|OF|[^\w"\\])*')
# What may be said of times without bringing digits of its own into the value: a zone that is a place and no offset, and
# bins of a customary length, counted from a midnight. Of a bin that is long enough its start would be the value.
_NAME: Final = re.compile(r"[A-Za-z_/]+")
_BIN: Final = re.compile(r"(?:(?:[1-6]|8|10|12|15|20|30) (?:second|minute|hour)s?)|1 day|7 days|1 week")
_MIDNIGHT: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]00:00(?::00)?)?(?:Z|\+00)?")
_OF_TIMES: Final = {"timezone": (_NAME,), "date_trunc": (_NAME, _NAME), "date_bin": (_BIN, _MIDNIGHT)}


def origin_of(node: pb.Node, parts: Sequence[Origin], *, rows_read: bool = False) -> Origin:
    """Returns where an expression's value is from; `parts` are those of its own expressions, in their order.

    `rows_read` tells of a call whether the rows that it would count are all of tables. Columns and subqueries are not
    told here.
    """
    kind = node.WhichOneof("node") or ""
    if kind == "a_const":
        return of_literal(node.a_const)
    if kind == "func_call":
        return _called(node.func_call, parts, rows_read=rows_read)
    if kind == "a_expr":
        return _operated(node.a_expr, parts)
    if kind == "case_expr":
        return _chosen(node.case_expr, parts)
    if kind == "type_cast":
        return _cast(node.type_cast, parts)
    how = _OTHERS.get(kind)
    return how(parts) if how is not None else Origin.STATED


def counts_own_rows(call: pb.FuncCall) -> bool:
    """Tells whether a call counts the rows of the query that it stands in.

    One with arguments, or a filter, that name only columns of an outer query counts the rows of that one.
    """
    return call.HasField("over") or (call.agg_star and not call.HasField("agg_filter"))


def _called(call: pb.FuncCall, parts: Sequence[Origin], *, rows_read: bool) -> Origin:
    name = call.funcname[-1].string.sval
    arguments, rest = parts[: len(call.args)], parts[len(call.args) :]
    if name in grammar.COUNTING or name in grammar.AGGREGATES or name.startswith("regr_"):
        if call.agg_within_group and name not in grammar.COUNTING:
            ordered = rest[call.HasField("agg_filter") :]
            return kept(ordered[: len(call.agg_order)])
        return _aggregated(call, name, arguments, rest, rows_read=rows_read)
    if name in _INVENTING:
        return Origin.STATED
    if name in _SUBJECTS:
        return _part(call, name, arguments)
    if name in ("lag", "lead"):  # how far, and what there is instead
        return kept([*arguments[:1], *arguments[2:]])
    if name == "to_char" and _TIME_FORMAT.fullmatch(call.args[-1].a_const.sval.sval):
        return mixed(arguments[:1])
    if name == "array_length":  # of which dimension
        return measured(arguments[:1])
    if name in _BUILDING:
        return mixed(arguments)
    return kept(arguments) if name in _KEEPING else measured(arguments)


def _aggregated(
    call: pb.FuncCall, name: str, arguments: Sequence[Origin], rest: Sequence[Origin], *, rows_read: bool
) -> Origin:
    """Returns the origin of what is made of rows; `rest` are the parts of how they are filtered and sorted."""
    if name in _PICKING:
        return kept(arguments)
    if name in _RANKS:
        # Literals say in how many parts, what would have the rank or, in an order, how many different ones there are.
        is_read = rows_read and Origin.STATED not in rest and set(arguments) <= {Origin.READ}
        return Origin.READ if is_read else Origin.STATED
    counted = rows_read and not _is_in_frame(call)
    if name in grammar.COLLECTORS:
        return kept(arguments) if counted else mixed(arguments)
    if name in ("count", "regr_count"):
        is_read = counted and (not call.agg_distinct or every(arguments).is_read)
        return Origin.READ if is_read else Origin.STATED
    if name == "sum":
        if not counted:
            return Origin.STATED
        return Origin.READ if list(arguments) == [Origin.ONE] else kept(arguments)
    return kept(arguments) if rows_read else Origin.STATED


def _is_in_frame(call: pb.FuncCall) -> bool:
    """Tells whether an aggregate may be over as many rows as the query says; of a named window that is not known."""
    over = call.over
    has_offset = over.HasField("start_offset") or over.HasField("end_offset")
    return bool(over.name) or (has_offset and bool(over.frame_options & _IN_ROWS))


def _part(call: pb.FuncCall, name: str, arguments: Sequence[Origin]) -> Origin:
    place = _SUBJECTS[name]
    subject = kept(arguments[place : place + 1])
    others = [
        (node, origin) for at, (node, origin) in enumerate(zip(call.args, arguments, strict=False)) if at != place
    ]
    if name in _CUTTING:
        return subject if all(origin is Origin.READ for _, origin in others) else mixed([subject])
    for (node, origin), pattern in zip(others, _OF_TIMES.get(name, ()), strict=False):
        if not origin.is_read and not pattern.fullmatch(_text(node)):
            return Origin.STATED
    return subject


def _text(node: pb.Node) -> str:
    """Returns a literal's text, with or without a type."""
    while node.WhichOneof("node") == "type_cast":
        node = node.type_cast.arg
    return str(node.a_const.sval.sval)


def _operated(operation: pb.A_Expr, parts: Sequence[Origin]) -> Origin:
    if operation.kind == pb.AEXPR_NULLIF:
        return first(parts)
    name = operation.name[-1].string.sval
    if operation.kind != pb.AEXPR_OP or name in _TRUTHS:
        return found(parts)
    if name in _PATHS:
        return first(parts)
    if len(parts) == 1 and name in ("-", "+"):
        return Origin.UNIT if parts[0] is Origin.ONE else parts[0]
    if name in ("-", "/") and operation.lexpr == operation.rexpr:
        return Origin.STATED  # 0 and 1, whatever is stored
    if name in ("*", "/") and len(parts) == 2:
        return _scaled(name, *parts)
    return mixed(parts) if name == "||" else kept(parts)


def _scaled(name: str, one: Origin, other: Origin) -> Origin:
    if one in _LITERALS and other in _LITERALS:
        if {one, other} <= _FACTORS:
            return Origin.UNIT
        # 1 / 98 would divide as 98 multiplies.
        return Origin.NUMBER if name == "*" else Origin.STATED
    by = _LITERALS if name == "/" else _FACTORS
    if not (one.is_read or one in _FACTORS) or not (other.is_read or other in by):
        return Origin.STATED
    return Origin.READ if one is other is Origin.READ else Origin.MIXED


def _chosen(case: pb.CaseExpr, parts: Sequence[Origin]) -> Origin:
    """Returns the origin of a CASE; `parts` are its subject, each condition with its result, and what else it is."""
    branches = parts[case.HasField("arg") :]
    conditions = branches[0 : 2 * len(case.args) : 2]
    results = [*branches[1 : 2 * len(case.args) : 2], *branches[2 * len(case.args) :]]
    if {Origin.ONE} < {*results, Origin.NOTHING} <= {Origin.ONE, Origin.NOTHING}:
        # Whether something is so, in figures.
        return every(parts[:1] if case.HasField("arg") else conditions)
    return kept(results)


def _cast(cast: pb.TypeCast, parts: Sequence[Origin]) -> Origin:
    origin = first(parts)
    if origin is Origin.READ and cast.type_name.typmods:  # the type says how long it is
        return Origin.MIXED
    is_number = cast.type_name.names[-1].string.sval in grammar.NUMBER_TYPES | {"numeric"}
    return Origin.STATED if origin in _LITERALS and not is_number else origin


_OTHERS: Final[dict[str, Callable[[Sequence[Origin]], Origin]]] = {
    "bool_expr": every,
    "null_test": found,
    "boolean_test": found,
    "coalesce_expr": kept,
    "min_max_expr": kept,
    "a_array_expr": mixed,
    "row_expr": mixed,
    "list": mixed,
    # Which element, or from which to which.
    "a_indirection": lambda parts: mixed(parts[-1:]),
    "collate_clause": last,
    "named_arg_expr": first,
    "sort_by": first,
}
