"""The caller's filter, added to a statement so that the SQL shown to the caller is honest about what ran.

It is not what isolates rows: row-level security does (docs/adr/0002-row-isolation.md). The reader may not read
the tables that assign keys to owners; the view of the same name in the schema `signalbox` shows it the caller's own
entries.
"""

from __future__ import annotations

from sqlglot import exp

from services.sql_executor.callers import SqlCaller
from services.sql_executor.catalog import Catalog
from services.sql_executor.naming import POLICY_SCHEMA, assignment_view
from services.sql_executor.policy import OwnedByColumn, OwnedByJoin, SqlPolicy, TableName, TableRule
from services.sql_executor.statement import CheckedStatement


def add_owner_filter(statement: CheckedStatement, caller: SqlCaller, catalog: Catalog) -> exp.Query:
    """Return the statement with each owned table limited to the caller's rows, and to the columns that are shown.

    Admins' statements are only limited in columns. The statement given is changed in place.
    """
    nodes = [node for node in statement.tree.find_all(exp.Table) if id(node) in statement.tables]
    for node in nodes:
        table = statement.tables[id(node)]
        rule = catalog.policy.visible()[table]
        alias = node.alias or table.name
        if table in catalog.partial:
            condition = None if caller.is_admin else _condition(rule, caller, catalog.policy, table.name)
            node.replace(_wrapped(node, alias, [column.name for column in catalog.columns[table]], condition))
        elif rule.owned_by is not None and not caller.is_admin:
            _limit(node, table, alias, rule, caller, catalog.policy)
    return statement.tree


def _limit(
    node: exp.Table, table: TableName, alias: str, rule: TableRule, caller: SqlCaller, policy: SqlPolicy
) -> None:
    join = node.parent if isinstance(node.parent, exp.Join) else None
    select = node.find_ancestor(exp.Select)
    renamed = bool(node.args.get("alias") and node.args["alias"].args.get("columns"))
    if select is None or renamed or node.args.get("joins") or not _is_plain_list(select, node):
        node.replace(_wrapped(node, alias, None, _condition(rule, caller, policy, table.name)))
    elif join is not None and join.side == "LEFT":
        _add_to_join(join, _condition(rule, caller, policy, alias))
    else:
        select.where(_condition(rule, caller, policy, alias), copy=False)


def _is_plain_list(select: exp.Select, node: exp.Table) -> bool:
    """Whether a condition in WHERE (or in its own LEFT JOIN's ON) filters the table before anything is joined to it."""
    joins = select.args.get("joins") or []
    direct = node.parent is select.args.get("from_") or any(node.parent is join for join in joins)
    sides = all(join.side in ("", "LEFT") and join.kind in ("", "INNER", "OUTER", "CROSS") for join in joins)
    own = node.parent
    conditional = isinstance(own, exp.Join) and own.side == "LEFT"
    return direct and sides and not _is_grouped_apart(select) and (not conditional or bool(own and own.args.get("on")))


def _is_grouped_apart(select: exp.Select) -> bool:
    return any(join.method for join in select.args.get("joins") or [])


def _add_to_join(join: exp.Join, condition: exp.Expr) -> None:
    join.set("on", exp.and_(join.args["on"], condition, copy=False))


def _wrapped(node: exp.Table, alias: str, columns: list[str] | None, condition: exp.Expr | None) -> exp.Subquery:
    source = exp.Table(this=node.this, db=node.args.get("db"))
    listed = [exp.column(exp.to_identifier(name)) for name in columns] if columns else [exp.Star()]
    select = exp.select(*listed).from_(source)
    if condition is not None:
        select = select.where(condition)
    named = node.args.get("alias") or exp.TableAlias(this=_identifier(alias))
    subquery = exp.Subquery(this=select, alias=named)
    if joins := node.args.get("joins"):
        subquery.set("joins", joins)
    return subquery


def _condition(rule: TableRule, caller: SqlCaller, policy: SqlPolicy, qualifier: str) -> exp.Expr:
    subject = caller.literal(policy.owner.subject_type)
    owned_by = rule.owned_by
    if isinstance(owned_by, OwnedByColumn):
        return exp.EQ(this=_column(owned_by.column, qualifier), expression=subject)
    if isinstance(owned_by, OwnedByJoin):
        assigned = (
            exp.select(_column(owned_by.on))
            .from_(exp.Table(this=_identifier(assignment_view(policy, owned_by)), db=_identifier(POLICY_SCHEMA)))
            .where(exp.EQ(this=_column(owned_by.subject_column), expression=subject))
        )
        return exp.In(this=_column(owned_by.on, qualifier), query=exp.Subquery(this=assigned))
    raise AssertionError("a table without an owner has no owner filter")


def _column(name: str, qualifier: str = "") -> exp.Column:
    return exp.Column(this=_identifier(name), table=_identifier(qualifier) if qualifier else None)


def _identifier(name: str) -> exp.Identifier:
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return exp.Identifier(this=name, quoted=not plain)
