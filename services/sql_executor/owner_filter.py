"""The caller's filter, added to a statement so that the SQL shown to the caller is honest about what ran.

It is not what isolates rows: row-level security does (docs/adr/0002-row-isolation.md). The reader may not read
the tables that assign keys to owners; the view of the same name in the schema `signalbox` shows it the caller's own
entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from postgast import pg_query_pb2 as pb

from services.sql_executor.callers import SqlCaller
from services.sql_executor.catalog import Catalog
from services.sql_executor.naming import POLICY_SCHEMA, assignment_view
from services.sql_executor.policy import OwnedByColumn, SqlPolicy, TableRule
from services.sql_executor.table_uses import TableUse


def add_owner_filter(uses: Iterable[TableUse], caller: SqlCaller, catalog: Catalog) -> None:
    """Limit each owned table in a tree to the caller's rows, and each table to the columns that are shown.

    Admins' statements are only limited in columns. The tree is changed in place.
    """
    for use in uses:
        rule = catalog.rules[use.table]
        is_limited = rule.owned_by is not None and not caller.is_admin
        if use.table in catalog.partial:
            columns = [column.name for column in catalog.columns[use.table]]
            condition = _condition(rule, caller, catalog.policy, use.table.name) if is_limited else None
            _wrap(use.node, use.table.name, columns, condition)
        elif is_limited:
            _limit(use, rule, caller, catalog.policy)


def _limit(use: TableUse, rule: TableRule, caller: SqlCaller, policy: SqlPolicy) -> None:
    named = use.node.range_var
    condition = _condition(rule, caller, policy, named.alias.aliasname or use.table.name)
    if named.alias.colnames or not (use.place.is_plain or use.place.left_join):
        _wrap(use.node, use.table.name, None, _condition(rule, caller, policy, use.table.name))
    elif use.place.left_join:
        _add(use.place.left_join.quals, condition)
    else:
        _add(use.place.select.where_clause, condition)


def _add(conditions: pb.Node, condition: pb.Node) -> None:
    """Adds a condition to those that a node holds, as the grammar reads them: one list for a chain of AND."""
    if conditions.bool_expr.boolop == pb.AND_EXPR:
        conditions.bool_expr.args.append(condition)
    elif conditions.WhichOneof("node") is None:
        conditions.CopyFrom(condition)
    else:
        both = pb.BoolExpr(boolop=pb.AND_EXPR, args=[conditions, condition])
        conditions.CopyFrom(pb.Node(bool_expr=both))


def _wrap(node: pb.Node, name: str, columns: list[str] | None, condition: pb.Node | None) -> None:
    """Puts a subquery of the same name in a table's place."""
    named = node.range_var
    alias = pb.Alias(aliasname=named.alias.aliasname or name, colnames=named.alias.colnames)
    table = pb.RangeVar(schemaname=named.schemaname, relname=named.relname, inh=True, relpersistence="p")
    listed = [_reference(column) for column in columns] if columns else [_STAR]
    select = _select(listed, table, condition)
    node.CopyFrom(pb.Node(range_subselect=pb.RangeSubselect(subquery=select, alias=alias)))


_STAR = pb.Node(column_ref=pb.ColumnRef(fields=[pb.Node(a_star=pb.A_Star())]))


def _select(columns: Iterable[pb.Node], table: pb.RangeVar, condition: pb.Node | None) -> pb.Node:
    select = pb.SelectStmt(
        target_list=[pb.Node(res_target=pb.ResTarget(val=column)) for column in columns],
        from_clause=[pb.Node(range_var=table)],
        where_clause=condition,
        limit_option=pb.LIMIT_OPTION_DEFAULT,
        op=pb.SETOP_NONE,
    )
    return pb.Node(select_stmt=select)


def _condition(rule: TableRule, caller: SqlCaller, policy: SqlPolicy, qualifier: str) -> pb.Node:
    subject = caller.literal(policy.owner.subject_type)
    owned_by = rule.owned_by
    if isinstance(owned_by, OwnedByColumn):
        return _equal(_reference(qualifier, owned_by.column), subject)
    if (way := rule.way) is None:
        raise AssertionError("a table without an owner has no owner filter")
    view = pb.RangeVar(schemaname=POLICY_SCHEMA, relname=assignment_view(policy, way), inh=True, relpersistence="p")
    assigned = _select([_reference(way.key)], view, _equal(_reference(way.subject_column), subject))
    key = _reference(qualifier, way.column)
    return pb.Node(sub_link=pb.SubLink(sub_link_type=pb.ANY_SUBLINK, testexpr=key, subselect=assigned))


def _equal(one: pb.Node, other: pb.Node) -> pb.Node:
    return pb.Node(a_expr=pb.A_Expr(kind=pb.AEXPR_OP, name=[_string("=")], lexpr=one, rexpr=other))


def _reference(*names: str) -> pb.Node:
    return pb.Node(column_ref=pb.ColumnRef(fields=[_string(name) for name in names]))


def _string(text: str) -> pb.Node:
    return pb.Node(string=pb.String(sval=text))
