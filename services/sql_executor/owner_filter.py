"""The caller's filter, added to a statement so that the SQL shown to the caller is honest about what ran.

Row-level security isolates rows without it (docs/adr/0002-row-isolation.md), and it does without row-level security:
`sent.py` looks for it in what is sent. The reader may not read the tables that assign keys to owners; the view of the
same name in the schema `signalbox` shows it the caller's own entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postgast import pg_query_pb2 as pb

from services.sql_executor.callers import SqlCaller
from services.sql_executor.catalog import Catalog
from services.sql_executor.naming import POLICY_SCHEMA, assignment_view
from services.sql_executor.policy import OwnedByColumn, SqlPolicy, TableName, TableRule
from services.sql_executor.samples import sampled, table_in
from services.sql_executor.table_uses import TableUse


def add_owner_filter(uses: Sequence[TableUse], caller: SqlCaller, catalog: Catalog) -> None:
    """Limit each owned table in a tree to the caller's rows, and each table to the columns that are shown.

    Admins' statements are only limited in columns. The tree is changed in place; `uses` are in the order in which they
    were found, and are limited from the last on: to put a condition beside another one is to copy that, and what stands
    in a condition was found after the tables that it is about.
    """
    for use in reversed(uses):
        named = table_in(use.node)
        condition = owner_condition(use.table, named.alias.aliasname, caller, catalog)
        conditions = use.place.conditions(named) if use.table not in catalog.partial else None
        if condition is not None and conditions is not None:
            _add(conditions, condition)
        elif (limited := limited_table(use.table, named, caller, catalog)) is not None:
            alias = pb.Alias(aliasname=named.alias.aliasname or use.table.name, colnames=named.alias.colnames)
            subquery = pb.Node(select_stmt=sampled(limited, use.node))
            use.node.CopyFrom(pb.Node(range_subselect=pb.RangeSubselect(subquery=subquery, alias=alias)))


def owner_condition(table: TableName, alias: str, caller: SqlCaller, catalog: Catalog) -> pb.Node | None:
    """Returns the condition that limits a table of a query, under an alias or its own name, to the caller's rows.

    None when nobody owns its rows, or an admin asks.
    """
    rule = catalog.rules[table]
    is_limited = rule.owned_by is not None and not caller.is_admin
    return _condition(rule, caller, catalog.policy, alias or table.name) if is_limited else None


def limited_table(table: TableName, named: pb.RangeVar, caller: SqlCaller, catalog: Catalog) -> pb.SelectStmt | None:
    """Returns the query that stands in a table's place: what of it the caller may see. None for all of it."""
    condition = owner_condition(table, "", caller, catalog)
    columns = [column.name for column in catalog.columns[table]] if table in catalog.partial else []
    if condition is None and not columns:
        return None
    plain = pb.RangeVar(schemaname=named.schemaname, relname=named.relname, inh=True, relpersistence="p")
    return _select([_reference(column) for column in columns] or [_STAR], plain, condition)


def _add(conditions: pb.Node, condition: pb.Node) -> None:
    """Adds a condition to those that a node holds, as the grammar reads them: one list for a chain of AND."""
    if conditions.bool_expr.boolop == pb.AND_EXPR:
        conditions.bool_expr.args.append(condition)
    elif conditions.WhichOneof("node") is None:
        conditions.CopyFrom(condition)
    else:
        both = pb.BoolExpr(boolop=pb.AND_EXPR, args=[conditions, condition])
        conditions.CopyFrom(pb.Node(bool_expr=both))


_STAR = pb.Node(column_ref=pb.ColumnRef(fields=[pb.Node(a_star=pb.A_Star())]))


def _select(columns: Iterable[pb.Node], table: pb.RangeVar, condition: pb.Node | None) -> pb.SelectStmt:
    return pb.SelectStmt(
        target_list=[pb.Node(res_target=pb.ResTarget(val=column)) for column in columns],
        from_clause=[pb.Node(range_var=table)],
        where_clause=condition,
        limit_option=pb.LIMIT_OPTION_DEFAULT,
        op=pb.SETOP_NONE,
    )


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
    return pb.Node(
        sub_link=pb.SubLink(sub_link_type=pb.ANY_SUBLINK, testexpr=key, subselect=pb.Node(select_stmt=assigned))
    )


def _equal(one: pb.Node, other: pb.Node) -> pb.Node:
    return pb.Node(a_expr=pb.A_Expr(kind=pb.AEXPR_OP, name=[_string("=")], lexpr=one, rexpr=other))


def _reference(*names: str) -> pb.Node:
    return pb.Node(column_ref=pb.ColumnRef(fields=[_string(name) for name in names]))


def _string(text: str) -> pb.Node:
    return pb.Node(string=pb.String(sval=text))
