"""Whether a table's name may be read."""

from __future__ import annotations

import difflib

from services.kit.tools.executor import ToolRefused
from services.sql_executor.catalog import Catalog
from services.sql_executor.policy import TableName

SYSTEM_SCHEMAS = frozenset({"pg_catalog", "information_schema", "pg_toast", "signalbox"})


def check_cte_name(name: str, catalog: Catalog) -> None:
    """Checks that a CTE does not take a table's name. Raises ToolRefused."""
    # Every reading of the query would depend on scopes.
    if name in catalog.names or name in catalog.restricted or name.startswith("pg_"):
        raise ToolRefused("shadowed_table", f"The CTE {name!r} has the name of a table; give it another name.")


def visible_table(schema: str, name: str, catalog: Catalog) -> TableName:
    """Returns the table that a name means. Raises ToolRefused for one that may not be read."""
    if schema in SYSTEM_SCHEMAS or schema.startswith("pg_") or (not schema and name.startswith("pg_")):
        raise ToolRefused(
            "system_catalog", "System catalogs can't be read; the tables and columns are in this tool's description."
        )
    if name in catalog.restricted:
        raise ToolRefused("restricted_table", f"The table {name!r} is restricted; nobody may query it.")
    table = TableName(schema or catalog.policy.schemas[0], name)
    if table not in catalog.rules or table not in catalog.columns:
        raise ToolRefused("unknown_table", _no_such_table(table, catalog))
    return table


def _no_such_table(table: TableName, catalog: Catalog) -> str:
    known = [catalog.shown(each) for each in catalog.columns]
    near = difflib.get_close_matches(catalog.shown(table), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}."
    return f"There is no table {catalog.shown(table)!r} to query; {hint}"
