"""The names that Postgres gives to output columns without an alias."""

from __future__ import annotations

from collections.abc import Callable

from postgast import pg_query_pb2 as pb

from services.sql_executor import grammar


def output_name(node: pb.Node, name_of_subquery: Callable[[pb.SelectStmt], str]) -> str:
    """Returns the name that Postgres gives to an output column without an alias (FigureColname)."""
    return _figured(node, name_of_subquery)[0] or "?column?"


def _figured(node: pb.Node, of_subquery: Callable[[pb.SelectStmt], str]) -> tuple[str, int]:
    """Returns a name, and how sure Postgres is of it."""
    kind = node.WhichOneof("node") or ""
    if kind in _FIXED_NAMES:
        return _FIXED_NAMES[kind], 2
    if kind == "column_ref":
        return node.column_ref.fields[-1].string.sval, 2
    if kind == "func_call":
        return node.func_call.funcname[-1].string.sval, 2
    if (
        kind == "a_indirection"
        and (names := [step.string.sval for step in node.a_indirection.indirection])
        and names[-1]
    ):
        return names[-1], 2
    if kind in ("a_indirection", "collate_clause"):
        return _figured(getattr(node, kind).arg, of_subquery)
    if kind == "type_cast":
        name, strength = _figured(node.type_cast.arg, of_subquery)
        return (name, strength) if strength > 1 else (node.type_cast.type_name.names[-1].string.sval, 1)
    if kind == "case_expr":
        name, strength = _figured(node.case_expr.defresult, of_subquery)
        return (name, strength) if strength > 1 else ("case", 1)
    if kind == "sub_link":
        return _of_sublink(node.sub_link, of_subquery)
    return _of_words(node, kind)


def _of_words(node: pb.Node, kind: str) -> tuple[str, int]:
    if kind == "a_expr" and node.a_expr.kind == pb.AEXPR_NULLIF:
        return "nullif", 2
    if kind == "min_max_expr":
        return ("greatest" if node.min_max_expr.op == pb.IS_GREATEST else "least"), 2
    if kind == "sqlvalue_function":
        return grammar.VALUE_FUNCTIONS.get(node.sqlvalue_function.op, ""), 2
    return "", 0


_FIXED_NAMES = {"grouping_func": "grouping", "a_array_expr": "array", "row_expr": "row", "coalesce_expr": "coalesce"}


def _of_sublink(link: pb.SubLink, of_subquery: Callable[[pb.SelectStmt], str]) -> tuple[str, int]:
    if link.sub_link_type == pb.EXISTS_SUBLINK:
        return "exists", 2
    if link.sub_link_type == pb.ARRAY_SUBLINK:
        return "array", 2
    if link.sub_link_type == pb.EXPR_SUBLINK:
        return of_subquery(link.subselect.select_stmt), 2
    return "", 0
