"""The policy file: which tables a database shows, who owns their rows, and the limits of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from services.kit.text.policy_file import load_policy_file

# Postgres cuts longer names without a word, which would make two of them one.
Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[^\x00.\"]+$")]
QualifiedName = Annotated[
    str, StringConstraints(min_length=1, max_length=127, pattern=r"^[^\x00.\"]+(\.[^\x00.\"]+)?$")
]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]


class TableName(NamedTuple):
    """A table's schema and name, as the database spells them."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Owner(_Strict):
    """Who owns rows: callers, named by their token's subject."""

    subject_type: Literal["integer", "text", "uuid"] = Field(description="Type of the columns that hold a subject.")


class OwnedByColumn(_Strict):
    """A column of the table itself holds the owner."""

    column: Name = Field(description="Column that holds the owner's subject.")


class OwnedByJoin(_Strict):
    """Another table says who owns which key."""

    join: QualifiedName = Field(description="Table that assigns keys to owners.")
    on: Name = Field(description="Key column, of the same name in both tables.")
    subject_column: Name = Field(description="Column of the joined table that holds the owner's subject.")


class Hop(_Strict):
    """A table on the way from an owned table to its owners."""

    table: QualifiedName = Field(description="The table; no view.")
    column: Name = Field(description="Column of the table before it that leads here.")
    references: Name | None = Field(
        None, description="Column of this table with the same values; `column` when absent."
    )

    @property
    def key(self) -> str:
        """The column of this table that the one before it refers to."""
        return self.references or self.column


class OwnedByPath(_Strict):
    """The owner is found through one table or more."""

    path: list[Hop] = Field(min_length=1, max_length=8, description="The tables in order; the last one has the owner.")
    subject_column: Name = Field(description="Column of the last table that holds the owner's subject.")


class Way(NamedTuple):
    """How an owned table leads to its owners."""

    hops: tuple[Hop, ...]
    subject_column: str

    @property
    def column(self) -> str:
        """The column of the owned table that leads to the first hop."""
        return self.hops[0].column

    @property
    def key(self) -> str:
        """The column of the first hop that the owned table refers to."""
        return self.hops[0].key


class TableRule(_Strict):
    """How one table is shown: to everyone, or to each caller their own rows."""

    owned_by: OwnedByColumn | OwnedByJoin | OwnedByPath | None = Field(None, description="How to find a row's owner.")
    shared: bool = Field(False, description="True when every caller may read every row.")
    columns: list[Name] | None = Field(
        None,
        min_length=1,
        description="Columns that may be read, the owner's or the one that leads there among them; all when absent.",
    )

    @model_validator(mode="after")
    def _owned_or_shared(self) -> Self:
        if (self.owned_by is None) != self.shared:
            raise ValueError("give exactly one of `owned_by` and `shared: true`")
        return self

    @model_validator(mode="after")
    def _shows_what_its_filter_reads(self) -> Self:
        # The filter stands in the SQL that the caller is shown, and that runs with the reader's rights.
        if self.key is not None and self.columns is not None and self.key not in self.columns:
            raise ValueError(f"`columns` leaves out {self.key!r}, by which a caller's own rows are found: add it")
        return self

    @property
    def key(self) -> str | None:
        """The column of the table itself that holds the owner or leads there."""
        if isinstance(self.owned_by, OwnedByColumn):
            return self.owned_by.column
        return self.way.column if self.way else None

    @property
    def way(self) -> Way | None:
        """The tables that lead to the owner, where the table itself does not hold it."""
        if isinstance(self.owned_by, OwnedByJoin):
            hop = Hop(table=self.owned_by.join, column=self.owned_by.on, references=None)
            return Way((hop,), self.owned_by.subject_column)
        if isinstance(self.owned_by, OwnedByPath):
            return Way(tuple(self.owned_by.path), self.owned_by.subject_column)
        return None


class Limits(_Strict):
    """Bounds of one query."""

    row_cap: int = Field(200, ge=1, le=100_000, description="Most rows in a result.")
    byte_cap: int = Field(1 << 20, ge=1024, le=3 << 20, description="Most bytes of values in a result.")
    statement_timeout_ms: int = Field(5000, ge=50, le=600_000, description="Longest that a query may run.")
    query_length: int = Field(20_000, ge=100, le=200_000, description="Most characters of a query.")
    depth: int = Field(
        60, ge=5, le=120, description="Deepest nesting of a query's expressions; the parser itself reads about 48."
    )
    work_mem_kb: int = Field(4096, ge=64, le=4 << 20, description="Memory for one sort or hash of a query, in KiB.")
    connections: int = Field(20, ge=2, le=1000, description="Most connections of the reader role at once.")


class Functions(_Strict):
    """Functions that queries may call besides the built-in list."""

    allow: list[FunctionName] = Field(default_factory=list, description="Names of further functions.")


class Roles(_Strict):
    """Database roles that the policy needs."""

    reader: Name = Field("signalbox_reader", description="Role that the executor logs in as.")
    owner: Name = Field("signalbox_policy", description="Role that owns the policy's functions; nobody logs in as it.")


class SqlPolicy(_Strict):
    """A policy file."""

    version: Literal[1] = Field(description="Version of this format.")
    database: Name = Field(description="What the database is called towards the model.")
    schemas: list[Name] = Field(
        default_factory=lambda: ["public"],
        min_length=1,
        description="Schemas with tables; names without a schema mean the first.",
    )
    owner: Owner = Field(description="Who owns rows.")
    tables: dict[QualifiedName, TableRule] = Field(min_length=1, description="Tables that may be read.")
    restricted: list[QualifiedName] = Field(
        default_factory=list, description="Tables nobody may read, admins included."
    )
    admin_roles: list[str] = Field(default_factory=lambda: ["admin"], description="Token roles that see every row.")
    limits: Limits = Field(default_factory=Limits, description="Bounds of one query.")
    functions: Functions = Field(default_factory=Functions, description="Functions that queries may call.")
    roles: Roles = Field(default_factory=Roles, description="Database roles.")
    hardening: bool = Field(
        True,
        description="Take rights to end sessions and to write to the log stream from PUBLIC, hide the reader's "
        "running statements and bound its temporary files. Needs a superuser.",
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        visible = set(self.visible())
        for problem in (*self._schema_problems(visible), *self._overlap_problems(visible)):
            raise ValueError(problem)
        return self

    def _schema_problems(self, visible: set[TableName]) -> Iterator[str]:
        if len(visible) < len(self.tables):
            yield "tables: a table is listed twice, with and without its schema"
        for table in sorted(visible):
            if table.schema not in self.schemas:
                yield f"tables.{table}: the schema {table.schema!r} is not in `schemas`"
        if {"pg_catalog", "information_schema", "signalbox"} & set(self.schemas):
            yield "schemas: pg_catalog, information_schema and signalbox can't be shown"
        if self.roles.reader == self.roles.owner:
            yield "roles: reader and owner must be different roles"

    def _overlap_problems(self, visible: set[TableName]) -> Iterator[str]:
        hidden = self.restricted_names()
        for table in sorted(visible):
            if table.name in hidden:
                yield f"restricted: {table.name!r} is also in `tables`"

    def table_name(self, name: str) -> TableName:
        """Returns a name of the policy with its schema."""
        schema, _, table = name.rpartition(".")
        return TableName(schema or self.schemas[0], table)

    def restricted_names(self) -> frozenset[str]:
        """Returns the names of tables that nobody may read, in whichever schema."""
        return frozenset(self.table_name(name).name for name in self.restricted)

    def visible(self) -> dict[TableName, TableRule]:
        """Returns the tables that may be read."""
        return {self.table_name(name): rule for name, rule in self.tables.items()}

    def ways(self) -> list[Way]:
        """Returns the distinct ways that lead to owners, in the order of the file."""
        found = [rule.way for rule in self.tables.values()]
        return list(dict.fromkeys(way for way in found if way is not None))

    def hops(self) -> list[TableName]:
        """Returns the tables on the ways to owners."""
        return list(dict.fromkeys(self.table_name(hop.table) for way in self.ways() for hop in way.hops))


def load_policy(path: Path) -> SqlPolicy:
    """Reads a policy file. Raises PolicyFileError."""
    return load_policy_file(path, SqlPolicy)
