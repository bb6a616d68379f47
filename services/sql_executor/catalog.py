"""The tables a policy shows, with their columns as the database has them; read once when the service starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from services.sql_executor.errors import UnsafeDatabase
from services.sql_executor.policy import OwnedByColumn, OwnedByJoin, SqlPolicy, TableName, TableRule

_COLUMNS = files("services.sql_executor").joinpath("sql/columns.sql").read_text(encoding="utf-8")


@dataclass(frozen=True)
class ColumnInfo:
    """A column: its name, its type as the database writes it, and its comment."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True)
class Catalog:
    """What queries may read."""

    policy: SqlPolicy
    columns: Mapping[TableName, tuple[ColumnInfo, ...]]
    # Tables with more columns than the policy shows.
    partial: frozenset[TableName] = frozenset()

    def rule(self, table: TableName) -> TableRule | None:
        """Return how a table is shown, or None when it is not."""
        return self.policy.visible().get(table) if table in self.columns else None

    def shown(self, table: TableName) -> str:
        """Return a table's name as queries write it."""
        return table.name if table.schema == self.policy.schemas[0] else str(table)

    def summary(self) -> str:
        """Describe the tables, their columns and whose rows they show, in words for the model."""
        lines = [f"Tables of the PostgreSQL database {self.policy.database}:"]
        for table, columns in self.columns.items():
            listed = ", ".join(_described(column) for column in columns)
            lines.append(f"- {self.shown(table)}({listed}); {_whose(self.policy.visible()[table])}")
        return "\n".join(lines)


async def read_catalog(connection: AsyncConnection[Any], policy: SqlPolicy) -> Catalog:
    """Read the columns of the policy's tables. Raises UnsafeDatabase when one is missing."""
    rules = policy.visible()
    found: dict[TableName, list[ColumnInfo]] = {table: [] for table in rules}
    partial = set()
    async with connection.cursor(row_factory=tuple_row) as cursor:
        wanted = ([table.schema for table in rules], [table.name for table in rules])
        await cursor.execute(_COLUMNS, wanted)
        async for schema, name, column, kind, comment in cursor:
            table = TableName(schema, name)
            allowed = rules[table].columns
            if allowed is None or column in allowed:
                found[table].append(ColumnInfo(column, kind, comment or ""))
            else:
                partial.add(table)
    missing = [*_missing(policy, found)]
    if missing:
        raise UnsafeDatabase("the policy names what the database does not have: " + "; ".join(missing))
    return Catalog(policy, {table: tuple(columns) for table, columns in found.items()}, frozenset(partial))


def _missing(policy: SqlPolicy, found: Mapping[TableName, list[ColumnInfo]]) -> list[str]:
    missing = []
    for table, columns in found.items():
        if not columns:
            missing.append(f"table {table}")
            continue
        names = {column.name for column in columns}
        missing += [f"column {table}.{name}" for name in policy.visible()[table].columns or [] if name not in names]
    return missing


def _described(column: ColumnInfo) -> str:
    comment = " ".join(column.comment.split())
    return f"{column.name} {column.type}{f' /* {comment} */' if comment else ''}"


def _whose(rule: TableRule) -> str:
    if isinstance(rule.owned_by, OwnedByColumn | OwnedByJoin):
        return "only the caller's own rows are visible"
    return "shared by all callers"
