"""The tables a policy shows, with their columns as the database has them; read once when the service starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from services.sql_executor.costs import Cost, derived_cost
from services.sql_executor.errors import UnsafeDatabase
from services.sql_executor.policy import SqlPolicy, TableName, TableRule
from services.sql_executor.queries import load_queries

# `unnest` of it makes columns of their own names, where the check expects one that has the alias's.
_UNSHOWN = frozenset({"tsvector"})
# What a table may have grown to since it was last counted, or has when it never was.
_LEAST_ROWS = 1000.0
_COLUMNS = load_queries("columns.sql")["columns"]
_COSTS = load_queries("costs.sql")["costs"]


@dataclass(frozen=True)
class ColumnInfo:
    """A column: its name, its type as the database writes it, its comment, and whether each value comes once.

    `written` is its name as queries write it; empty where they write it as it is.
    """

    name: str
    type: str
    comment: str = ""
    is_unique: bool = False
    written: str = ""


@dataclass(frozen=True)
class Catalog:
    """What queries may read."""

    policy: SqlPolicy
    columns: Mapping[TableName, tuple[ColumnInfo, ...]]
    # Tables with more columns than the policy shows.
    partial: frozenset[TableName] = frozenset()
    # About how many rows tables have.
    rows: Mapping[TableName, float] = field(default_factory=dict)
    # What the functions cost that the policy allows.
    costs: Mapping[str, Cost] = field(default_factory=dict)
    # Tables whose names queries write in another way, such as in quotes.
    written: Mapping[TableName, str] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Mapping[TableName, TableRule]:
        """How each table is shown."""
        return self.policy.visible()

    @cached_property
    def restricted(self) -> frozenset[str]:
        """Names of tables that nobody may read, in whichever schema."""
        return self.policy.restricted_names()

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the tables that are shown, in whichever schema."""
        return frozenset(table.name for table in self.columns)

    def shown(self, table: TableName) -> str:
        """Returns a table's name as queries write it."""
        name = self.written.get(table, table.name)
        return name if table.schema == self.policy.schemas[0] else f"{table.schema}.{name}"

    def summary(self) -> str:
        """Describes the tables, their columns and whose rows they show, in words for the model."""
        lines = [f"Tables of the PostgreSQL database {self.policy.database}:"]
        for table, columns in self.columns.items():
            listed = ", ".join(_described(column) for column in columns)
            lines.append(f"- {self.shown(table)}({listed}); {_whose(self.rules[table])}")
        return "\n".join(lines)


async def read_catalog(connection: AsyncConnection[Any], policy: SqlPolicy) -> Catalog:
    """Reads the columns of the policy's tables. Raises UnsafeDatabase when one is missing."""
    rules = policy.visible()
    found: dict[TableName, list[ColumnInfo]] = {table: [] for table in rules}
    partial = set()
    rows: dict[TableName, float] = {}
    names: dict[TableName, str] = {}
    async with connection.cursor(row_factory=tuple_row) as cursor:
        wanted = ([table.schema for table in rules], [table.name for table in rules])
        await cursor.execute(_COLUMNS, wanted)
        async for schema, name, written_table, column, written, kind, comment, is_unique, count in cursor:
            table = TableName(schema, name)
            names[table] = written_table
            rows[table] = max(count, _LEAST_ROWS)
            allowed = rules[table].columns
            if (allowed is None or column in allowed) and kind not in _UNSHOWN:
                found[table].append(ColumnInfo(column, kind, comment or "", is_unique, written))
            else:
                partial.add(table)
        await cursor.execute(_COSTS, [policy.functions.allow])
        costs = {name: derived_cost(long, collections) async for name, long, collections in cursor}
    missing = [*_missing(policy, found)]
    if missing:
        raise UnsafeDatabase("the policy names what the database does not have: " + "; ".join(missing))
    shown = {table: tuple(columns) for table, columns in found.items()}
    return Catalog(policy, shown, frozenset(partial), rows, costs, names)


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
    return f"{column.written or column.name} {column.type}{f' /* {comment} */' if comment else ''}"


def _whose(rule: TableRule) -> str:
    if rule.owned_by is not None:
        return "only the caller's own rows are visible"
    return "shared by all callers"
