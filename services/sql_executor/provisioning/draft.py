"""A policy file drafted from a database's foreign keys, for a person to go through before it is applied.

A table's rows belong to a user when a column of it refers to the table of users, when a table says so that assigns its
rows to users, or when it refers to a table of which one of these holds. Every other table stays restricted; what no
foreign key at all leads from to a user may be shared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import namedtuple_row

from services.kit.text.policy_file import PolicyFileError
from services.sql_executor.policy import TableName
from services.sql_executor.queries import load_queries

_QUERIES = load_queries("draft.sql")
_SUBJECT_TYPES = {"smallint": "integer", "integer": "integer", "bigint": "integer", "uuid": "uuid"}


class Reference(NamedTuple):
    """A foreign key of one column."""

    column: str
    table: TableName
    key: str


class Step(NamedTuple):
    """A hop on the way to a user."""

    table: TableName
    column: str
    key: str


@dataclass
class Schema:
    """The tables of a database, as far as they matter here."""

    tables: Sequence[TableName]
    references: Mapping[TableName, Sequence[Reference]]
    keys: Mapping[TableName, tuple[str, str]]  # the only column of the primary key, and its type
    assignments: set[TableName] = field(default_factory=set)  # tables whose key is made of references
    links: Mapping[TableName, set[TableName]] = field(default_factory=dict)  # by foreign keys of any number of columns


async def read_schema(connection: AsyncConnection[Any], schemas: Sequence[str]) -> Schema:
    """Reads tables, primary keys and foreign keys of some schemas."""
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_QUERIES["tables"], {"schemas": list(schemas)})
        rows: list[Any] = await cursor.fetchall()
        await cursor.execute(_QUERIES["references"], {"schemas": list(schemas)})
        references: dict[TableName, list[Reference]] = {}
        found: list[Any] = await cursor.fetchall()
        for row in found:
            target = TableName(row.target_schema, row.target)
            references.setdefault(TableName(row.schema, row.name), []).append(Reference(row.column, target, row.key))
        await cursor.execute(_QUERIES["links"], {"schemas": list(schemas)})
        links: dict[TableName, set[TableName]] = {}
        linked: list[Any] = await cursor.fetchall()
        for row in linked:
            links.setdefault(TableName(row.schema, row.name), set()).add(TableName(row.target_schema, row.target))
    tables = [TableName(row.schema, row.name) for row in rows]
    keys = {TableName(row.schema, row.name): (row.key, row.key_type) for row in rows if row.key is not None}
    assigning = {
        table
        for table, row in zip(tables, rows, strict=True)
        if len(references.get(table, ())) > 1
        and set(row.primary_key) <= {reference.column for reference in references[table]}
    }
    return Schema(tables, references, keys, assigning, links)


def drafted(
    database: str, schemas: Sequence[str], schema: Schema, users: TableName | None, *, share_rest: bool = False
) -> str:
    """Returns the text of a policy file. Raises PolicyFileError when users have no key of one column.

    Tables that lead to no user are closed to everybody, or with `share_rest` open to every caller.
    """
    if users is not None and users not in schema.keys:
        known = ", ".join(_shown(table, schemas) for table in sorted(schema.keys)) or "none"
        raise PolicyFileError(f"{users} is no table with a primary key of one column; there are: {known}")
    owned: dict[TableName, Found] = {}
    kind = ""
    if users is not None:
        key, kind = schema.keys[users]
        ways = {table: _way(table, users, key, schema) for table in schema.tables if table not in schema.assignments}
        owned = {table: way for table, way in ways.items() if way is not None}
    rest = [table for table in schema.tables if table not in owned]
    shared = [table for table in rest if share_rest and (users is None or not _leads_to(users, table, schema))]
    restricted = [table for table in rest if table not in shared]
    subject = f" # {users}.{key}" if users is not None else " # no row is anybody's own"
    lines = [
        "# Drafted from foreign keys: go through every table before you apply it. What is restricted nobody reads,",
        "# what is {shared: true} every caller reads all of.",
        "version: 1",
        f"database: {_quoted(database)}",
        f"schemas: [{', '.join(map(_quoted, schemas))}]",
        f"owner: {{subject_type: {_SUBJECT_TYPES.get(kind, 'text')}}}{subject}",
        "tables:",
        *(f"  {_quoted(_shown(table, schemas))}: {{owned_by: {_owned_by(way)}}}" for table, way in owned.items()),
        *(f"  {_quoted(_shown(table, schemas))}: {{shared: true}}" for table in shared),
        "restricted:" if restricted else "restricted: []",
        *(f"  - {_quoted(_shown(table, schemas))}{_why(table, schema)}" for table in restricted),
    ]
    return "\n".join(lines) + "\n"


Found = tuple[tuple[Step, ...], str]


def _way(table: TableName, users: TableName, key: str, schema: Schema) -> Found | None:
    """Returns the shortest way from a table to its users: the hops, and the column of the last table that names one."""
    if table == users:
        return (), key
    waiting: deque[tuple[TableName, tuple[Step, ...]]] = deque([(table, ())])
    seen = {table}
    while waiting:
        here, steps = waiting.popleft()
        if (subject := _names_user(here, users, schema)) is not None:
            return steps, subject
        for step in _steps(here, users, schema):
            if step.table not in seen and len(steps) < 8:
                seen.add(step.table)
                waiting.append((step.table, (*steps, step)))
    return None


def _leads_to(users: TableName, table: TableName, schema: Schema) -> bool:
    """Whether any foreign keys lead from a table to users, also such as no policy can go by."""
    waiting, seen = [table], {table}
    while waiting:
        here = waiting.pop()
        assigning = {each for each in schema.assignments if {here, users} <= schema.links.get(each, set())}
        following = schema.links.get(here, set()) | assigning
        if users in following or here == users:
            return True
        waiting += following - seen
        seen |= following
    return False


def _names_user(table: TableName, users: TableName, schema: Schema) -> str | None:
    columns = [reference.column for reference in schema.references.get(table, ()) if reference.table == users]
    return columns[0] if columns else None


def _steps(table: TableName, users: TableName, schema: Schema) -> Iterable[Step]:
    """Yields where a table leads: to what assigns its rows to users, and to what it refers to."""
    for other in sorted(schema.assignments):
        if _names_user(other, users, schema) is not None:
            for reference in schema.references[other]:
                if reference.table == table:
                    yield Step(other, reference.key, reference.column)
    for reference in schema.references.get(table, ()):
        if reference.table not in (users, table):
            yield Step(reference.table, reference.column, reference.key)


def _owned_by(way: Found) -> str:
    steps, subject = way
    if not steps:
        return f"{{column: {_quoted(subject)}}}"
    hops = [
        f"{{table: {_quoted(step.table.name)}, column: {_quoted(step.column)}, references: {_quoted(step.key)}}}"
        for step in steps
    ]
    return f"{{path: [{', '.join(hops)}], subject_column: {_quoted(subject)}}}"


def _why(table: TableName, schema: Schema) -> str:
    if table in schema.assignments:
        return " # its key is made of references: it may assign rows to users"
    return " # no foreign key of one column leads to a user"


def _shown(table: TableName, schemas: Sequence[str]) -> str:
    return table.name if table.schema == schemas[0] else str(table)


def _quoted(name: str) -> str:
    plain = name.replace("_", "").replace(".", "").isalnum() and not name[0].isdigit()
    reserved = name.lower() in ("on", "off", "yes", "no", "true", "false", "null", "y", "n")
    return name if plain and not reserved else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
