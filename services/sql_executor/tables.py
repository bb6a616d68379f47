"""Which relation each name in a query means, by Postgres's rules for CTEs, and whether it may be read."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from sqlglot import exp

from services.kit.tool_executor import ToolRefused
from services.sql_executor.catalog import Catalog
from services.sql_executor.policy import TableName

SYSTEM_SCHEMAS = frozenset({"pg_catalog", "information_schema", "pg_toast", "signalbox"})


def folded(identifier: exp.Expr | None) -> str:
    """Return a name as Postgres reads it: lower case unless quoted; empty when there is none."""
    if not isinstance(identifier, exp.Identifier):
        return ""
    name: str = identifier.this
    return name if identifier.args.get("quoted") else name.lower()


def read_tables(tree: exp.Query, catalog: Catalog) -> dict[int, TableName]:
    """Return the table behind each table node, by the node's id; nodes that mean a CTE or a function are left out.

    Raises ToolRefused for a table that may not be read.
    """
    for cte in tree.find_all(exp.CTE):
        _check_cte_name(folded(cte.args["alias"].this), catalog)
    resolved = {}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Func) or cte_meant(node) is not None:
            continue
        resolved[id(node)] = _visible_table(node, catalog)
    return resolved


def _check_cte_name(name: str, catalog: Catalog) -> None:
    # A CTE that takes a table's name would make every reading of the query depend on scopes.
    taken = {table.name for table in catalog.columns} | _restricted(catalog)
    if name in taken or name.startswith("pg_"):
        raise ToolRefused("shadowed_table", f"The CTE {name!r} has the name of a table; give it another name.")


def cte_meant(table: exp.Table) -> exp.CTE | None:
    """Return the CTE that a table node means: the nearest of its name that is in scope."""
    if table.args.get("db"):
        return None
    name = folded(table.this)
    return next((cte for cte in _ctes_in_scope(table) if folded(cte.args["alias"].this) == name), None)


def _ctes_in_scope(node: exp.Expr) -> Iterator[exp.CTE]:
    child: exp.Expr = node
    through: exp.CTE | None = None
    while (parent := child.parent) is not None:
        if isinstance(child, exp.CTE):
            through = child
        elif isinstance(parent, exp.Query) and (with_ := parent.args.get("with_")):
            inside = through if child is with_ else None
            yield from _ctes_seen_from(with_, inside)
        child = parent


def _ctes_seen_from(with_: exp.With, inside: exp.CTE | None) -> Iterator[exp.CTE]:
    for cte in with_.expressions:
        if cte is inside and not with_.args.get("recursive"):
            return
        yield cte


def _visible_table(node: exp.Table, catalog: Catalog) -> TableName:
    schema, name = folded(node.args.get("db")), folded(node.this)
    if node.args.get("catalog"):
        raise ToolRefused("unknown_table", f"Name the table {name!r} without a database.")
    if schema in SYSTEM_SCHEMAS or schema.startswith("pg_") or (not schema and name.startswith("pg_")):
        raise ToolRefused(
            "system_catalog", "System catalogs can't be read; the tables and columns are in this tool's description."
        )
    if name in _restricted(catalog):
        raise ToolRefused("restricted_table", f"The table {name!r} is restricted; nobody may query it.")
    table = TableName(schema or catalog.policy.schemas[0], name)
    if catalog.rule(table) is None:
        raise ToolRefused("unknown_table", _no_such_table(table, catalog))
    return table


def _restricted(catalog: Catalog) -> set[str]:
    return {catalog.policy.table_name(name).name for name in catalog.policy.restricted}


def _no_such_table(table: TableName, catalog: Catalog) -> str:
    known = [catalog.shown(each) for each in catalog.columns]
    near = difflib.get_close_matches(catalog.shown(table), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}."
    return f"There is no table {catalog.shown(table)!r} to query; {hint}"
