"""The tables that a policy shows, as questions speak of them: words, keys, references, measures, and values.

Of what is in the tables nothing is read but the values of look-up tables that every caller may read: a key and a name,
a few rows, referred to by others. Lists of values else are the schema's own: of enum types and of CHECK constraints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from psycopg import AsyncConnection, sql
from psycopg.rows import namedtuple_row

from services.sql_executor.policy import SqlPolicy, TableName
from services.sql_executor.provisioning.draft import Schema, read_schema
from services.sql_executor.provisioning.words import one_of, several, spoken
from services.sql_executor.queries import load_queries

_QUERIES = load_queries("draft.sql")
# Most values of a look-up table, and most columns that it may have.
MOST_VALUES: Final = 30
_LOOK_UP_COLUMNS: Final = 3
_TITLES: Final = ("name", "full name", "title", "label")
# Who has one of these is a person, whose title is no name.
_NAMES_OF_PEOPLE: Final = frozenset(("first name", "last name", "given name", "family name", "surname"))
_WORDS_ONLY = re.compile(r"[^\W\d_][^\W_]*(?:[ &/+'-]{1,3}[^\W_]+)*")
_LONGEST_VALUE: Final = 40
_NO_MEASURE = re.compile(r"(?:^| )(?:id|no|nr|number|code|zip|phone|year|month|day|version|rank|position)$")


@dataclass(frozen=True)
class DescribedColumn:
    """A column: its name, as queries write it, what it is called, the letter of its type's category, its values."""

    name: str
    written: str
    words: str
    type: str
    category: str
    values: tuple[str, ...] = ()

    @property
    def is_year(self) -> bool:
        """Whether it counts years."""
        return self.category == "N" and self.name.lower().endswith("year")

    @property
    def is_moment(self) -> bool:
        """Whether it is a date, or a date and a time."""
        return self.category == "D" and not self.type.startswith("time ")


@dataclass(frozen=True)
class Parent:
    """A table that another refers to, and the columns of both by which."""

    column: DescribedColumn
    table: Table
    key: DescribedColumn


@dataclass
class Table:
    """A table as questions speak of it."""

    name: TableName
    written: str
    one: str
    many: str
    columns: dict[str, DescribedColumn]
    key: DescribedColumn | None = None
    title: DescribedColumn | None = None
    parents: list[Parent] = field(default_factory=list)
    is_assignment: bool = False

    @property
    def shown(self) -> str:
        """The columns that tell one of its rows from the others."""
        return ", ".join(dict.fromkeys(f"t.{each.written}" for each in (self.key, self.title) if each)) or "t.*"

    @property
    def plain(self) -> list[DescribedColumn]:
        """The columns that are neither its key nor refer to another table."""
        keys = [parent.column for parent in self.parents]
        return [each for each in self.columns.values() if each is not self.key and each not in keys]

    @property
    def measures(self) -> list[DescribedColumn]:
        """The columns that there are averages and sums of."""
        return [each for each in self.plain if each.category == "N" and not _NO_MEASURE.search(each.words)]

    @property
    def kinds(self) -> list[DescribedColumn]:
        """The columns whose values are kinds of rows."""
        return [each for each in self.columns.values() if each.values and (each is self.title or each in self.plain)]

    def called(self, column: DescribedColumn) -> list[str]:
        """What a column is called: by its words, and by the last of them where no other of the table ends so."""
        last = column.words.split()[-1]
        alike = [each for each in self.columns.values() if each.words.split()[-1] == last]
        return [column.words, *([last] if len(alike) == 1 and last != column.words else [])]


async def read_tables(connection: AsyncConnection[Any], policy: SqlPolicy) -> list[Table]:
    """Reads the tables that a policy shows, with the values that may be told of."""
    schema = await read_schema(connection, policy.schemas)
    tables = await _described(connection, policy)
    for table in tables.values():
        _refer(table, tables, schema)
    referred = {parent.table.name for table in tables.values() for parent in table.parents}
    for name in referred:
        table = tables[name]
        if policy.visible()[name].shared and table.title and len(table.columns) <= _LOOK_UP_COLUMNS:
            table.title = table.columns[table.title.name] = await _with_values(connection, table, table.title)
    return list(tables.values())


async def _described(connection: AsyncConnection[Any], policy: SqlPolicy) -> dict[TableName, Table]:
    rules = policy.visible()
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_QUERIES["columns"], {"schemas": policy.schemas})
        rows: list[Any] = await cursor.fetchall()
    tables: dict[TableName, Table] = {}
    taken: set[str] = set()
    for row in rows:
        name = TableName(row.schema, row.name)
        shown = rules[name].columns if name in rules else None
        if name not in rules or (shown is not None and row.column not in shown):
            continue
        if name not in tables:
            is_first = row.schema == policy.schemas[0]
            one = one_of(spoken(row.name))
            one = one if one not in taken else f"{spoken(row.schema)} {one}"
            taken.add(one)
            written = row.table_written if is_first else f"{row.schema_written}.{row.table_written}"
            tables[name] = Table(name, written, one, several(one), {})
        values = tuple(value for value in row.listed if len(value) <= _LONGEST_VALUE)
        column = DescribedColumn(row.column, row.written, spoken(row.column), row.type, row.category, values)
        tables[name].columns[row.column] = column
    return tables


def _refer(table: Table, tables: Mapping[TableName, Table], schema: Schema) -> None:
    """Notes a table's key, its title, and what it refers to."""
    key, _ = schema.keys.get(table.name, ("", ""))
    table.key = table.columns.get(key)
    is_person = not _NAMES_OF_PEOPLE.isdisjoint(each.words for each in table.columns.values())
    named = [*_TITLES, *(f"{table.one} {title}" for title in _TITLES)]
    fit = [each for each in table.columns.values() if each.words in named and not (is_person and "title" in each.words)]
    table.title = next(iter(fit), None)
    table.is_assignment = table.name in schema.assignments
    for reference in schema.references.get(table.name, ()):
        target = tables.get(reference.table)
        if target and reference.column in table.columns and reference.key in target.columns:
            table.parents.append(Parent(table.columns[reference.column], target, target.columns[reference.key]))


async def _with_values(connection: AsyncConnection[Any], table: Table, title: DescribedColumn) -> DescribedColumn:
    """The title with its values, where they are few and each is a word or several."""
    names = {"column": sql.Identifier(title.name), "table": sql.Identifier(*table.name)}
    cursor = await connection.execute(sql.SQL(_QUERIES["few_values"]).format(**names), {"most": MOST_VALUES + 1})
    values = [value for (value,) in await cursor.fetchall()]
    fit = [value for value in values if len(value) <= _LONGEST_VALUE and _WORDS_ONLY.fullmatch(value)]
    if len(values) > MOST_VALUES or fit != values:
        return title
    return replace(title, values=tuple(values))
