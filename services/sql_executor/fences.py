"""Fences around queries in FROM and WITH, over which the planner does not look.

By itself it puts the expression of a column in the place of each name of that column, and a condition on a UNION in
each part of it, in one subquery after the other: a few lines grow to millions of nodes. A query that only names columns
needs no fence, for there a column stands for a column; nor does one with a LIMIT or an OFFSET, which is one.
"""

from __future__ import annotations

from postgast import pg_query_pb2 as pb


def fence_derived_table(table: pb.RangeSubselect) -> None:
    """Fences a query in FROM, where it needs one."""
    if not is_fenced(table):
        select = table.subquery.select_stmt
        select.limit_offset.a_const.ival.SetInParent()  # OFFSET 0
        select.limit_option = pb.LIMIT_OPTION_COUNT


def fence_cte(cte: pb.CommonTableExpr) -> None:
    """Fences a WITH query, where it needs one."""
    if not is_fenced(cte):
        cte.ctematerialized = pb.CTEMaterializeAlways


def is_fenced(query: pb.RangeSubselect | pb.CommonTableExpr) -> bool:
    """Tells whether a query in FROM or WITH has its fence, or needs none."""
    if isinstance(query, pb.RangeSubselect):
        select = query.subquery.select_stmt
        return select.HasField("limit_offset") or select.HasField("limit_count") or _only_names_columns(select)
    if query.ctematerialized == pb.CTEMaterializeDefault:
        return _only_names_columns(query.ctequery.select_stmt)
    return bool(query.ctematerialized == pb.CTEMaterializeAlways)


def _only_names_columns(select: pb.SelectStmt) -> bool:
    return (
        select.op == pb.SETOP_NONE
        and not select.values_lists
        and all(target.res_target.val.WhichOneof("node") == "column_ref" for target in select.target_list)
    )
