"""What the names in a query can mean: relations with their columns, in scopes, by Postgres's rules.

Postgres reads `u.f` as the call `f(u)` when the row `u` has no column `f`, so the columns of every relation are known
here exactly, down to the names that Postgres makes up for expressions without an alias.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

from postgast import pg_query_pb2 as pb

from services.sql_executor.origins import Origin, any_of
from services.sql_executor.sizes import Size, longest


class Column(NamedTuple):
    """A column of a relation or of a result, and whether its values come from a table or from the query."""

    name: str
    size: Size
    origin: Origin = Origin.STATED


Columns = Sequence[Column]
# A relation and one of its columns, by the relation's id.
Key = tuple[int, str]
# Two columns that must be the same.
Equality = tuple[pb.ColumnRef, pb.ColumnRef]


@dataclass(eq=False)
class Relation:
    """What stands in FROM under one name.

    `rows` is the most it has, and `of_tables` whether any of them comes from a table; `rows_read` tells whether tables
    alone say how many there are; `unique` columns have each value once.
    """

    name: str
    columns: Columns
    schema: str = ""  # of a table that has no alias
    rows: float = math.inf
    unique: frozenset[str] = frozenset()
    of_tables: bool = False
    rows_read: bool = False
    named: Mapping[str, Column] = field(init=False)

    @classmethod
    def of(cls, result: Result) -> Self:
        """Returns what a query in FROM is, or a WITH query that is read."""
        return cls(
            "",
            result.columns,
            rows=result.rows,
            of_tables=result.of_tables,
            rows_read=result.rows_read,
        )

    def __post_init__(self) -> None:
        named: dict[str, Column] = {}
        for column in self.columns:
            named[column.name] = merged(column.name, [named[column.name], column]) if column.name in named else column
        self.named = named

    def called(self, alias: pb.Alias) -> Relation:
        """Returns the relation under an alias, which may rename its first columns."""
        names = [name.string.sval for name in alias.colnames]
        renamed = [column._replace(name=name) for name, column in zip(names, self.columns, strict=False)]
        unique = self.unique - {column.name for column in self.columns[: len(names)]}
        columns = [*renamed, *self.columns[len(names) :]]
        return replace(self, name=alias.aliasname, schema="", columns=columns, unique=unique)


@dataclass
class Source:
    """What FROM has so far: relations, what `*` means of them, the most rows they make, and what stays unique."""

    relations: list[Relation]
    columns: Columns
    rows: float
    keys: frozenset[Key]

    @classmethod
    def of(cls, relation: Relation) -> Source:
        """Returns a source of one relation."""
        keys = frozenset((id(relation), name) for name in relation.unique)
        return cls([relation], relation.columns, relation.rows, keys)

    def joined(self, other: Source, equal: Iterable[tuple[Key, Key]], using: Sequence[str] = ()) -> Source:
        """Returns the rows of both together.

        `equal` are columns that must be the same in both; those of `using` come first in `*`, and once.
        """
        rows, keys = self.rows * other.rows, frozenset[Key]()
        for one, another in equal:
            if another in other.keys or one in other.keys:
                rows, keys = min(rows, max(self.rows, other.rows)), keys | self.keys
            if one in self.keys or another in self.keys:
                rows, keys = min(rows, max(self.rows, other.rows)), keys | other.keys
        every = [*self.columns, *other.columns]
        shared: dict[str, list[Column]] = {name: [] for name in using}
        for column in every:
            if column.name in shared:
                shared[column.name].append(column)
        columns = [
            *(merged(name, shared[name]) for name in using),
            *(column for column in every if column.name not in shared),
        ]
        return Source([*self.relations, *other.relations], columns, rows, keys)


@dataclass(eq=False)
class Cte:
    """A WITH query: its columns once it has been read; while it reads itself, those of its first part."""

    node: pb.CommonTableExpr
    frame: Frame
    outer: Scope | None
    relation: Relation | None = None
    is_being_read: bool = False
    reads_tables: bool = False


@dataclass(eq=False)
class Frame:
    """The WITH queries that a query sees."""

    ctes: dict[str, Cte]
    outer: Frame | None

    def find(self, name: str) -> Cte | None:
        """Returns the nearest of a name."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.ctes:
                return frame.ctes[name]
            frame = frame.outer
        return None


@dataclass(eq=False)
class Scope:
    """What the names in one part of a query see."""

    relations: Sequence[Relation]
    outer: Scope | None
    frame: Frame | None
    columns: Columns = ()
    rows: float = 1
    is_aggregated: bool = False
    is_set: bool = False
    # What makes rows beside those that are read: a set of values in place of one, and several groups of one row.
    unfolds: bool = False
    regroups: bool = False
    # Names of output columns, where ORDER BY and GROUP BY may use them.
    outputs: Collection[str] = ()

    @cached_property
    def of_tables(self) -> bool:
        """Whether any of its own rows comes from a table."""
        return any(relation.of_tables for relation in self.relations)

    @cached_property
    def rows_read(self) -> bool:
        """Whether tables alone say how many rows it has."""
        return rows_are_read(self.relations)

    @cached_property
    def adds_rows(self) -> bool:
        """Whether it, or a query around it, has rows of the query's own."""
        around = self.outer is not None and self.outer.adds_rows
        return around or not all(each.rows_read or each.rows <= 1 for each in self.relations)

    @cached_property
    def breadth(self) -> int:
        """The relations among which a name is looked for."""
        return len(self.relations) + (self.outer.breadth if self.outer is not None else 1)

    def column(self, name: str) -> Column | None:
        """Returns an unqualified column."""
        scope: Scope | None = self
        while scope is not None:
            found = [relation.named[name] for relation in scope.relations if name in relation.named]
            if found:
                return merged(name, found)
            scope = scope.outer
        return None

    def relation(self, name: str, schema: str = "") -> Relation | None:
        """Returns the nearest relation of a name."""
        scope: Scope | None = self
        while scope is not None:
            for relation in scope.relations:
                if relation.name == name and (not schema or relation.schema == schema):
                    return relation
            scope = scope.outer
        return None

    def names(self) -> Iterable[str]:
        """Returns every unqualified column that is seen."""
        scope: Scope | None = self
        while scope is not None:
            for relation in scope.relations:
                yield from relation.named
            scope = scope.outer

    def most_rows(self) -> float:
        """Returns the most rows that an aggregate here may see, though it be one of an outer query."""
        scope, rows = self.outer, self.rows
        while scope is not None:
            rows, scope = max(rows, scope.rows), scope.outer
        return rows


class Result(NamedTuple):
    """What a query returns: its columns, the most rows it has, and whether any part of it reads a table.

    `rows_read` is that of a relation.
    """

    columns: Columns
    rows: float
    of_tables: bool
    rows_read: bool = False


def rows_are_read(relations: Sequence[Relation]) -> bool:
    """Tells whether tables alone say how many rows relations make together: one row of the query's own adds none."""
    return any(each.rows_read for each in relations) and all(each.rows_read or each.rows <= 1 for each in relations)


def merged(name: str, columns: Sequence[Column]) -> Column:
    """Returns what several columns of one name are together: read only when each is, as any may give the value."""
    return Column(name, longest(column.size for column in columns), any_of([column.origin for column in columns]))


def equalities(condition: pb.Node) -> Iterable[Equality]:
    """Yields the columns that a condition, or a part of it that must hold, makes equal."""
    if condition.WhichOneof("node") == "bool_expr" and condition.bool_expr.boolop == pb.AND_EXPR:
        for part in condition.bool_expr.args:
            yield from equalities(part)
        return
    if condition.WhichOneof("node") != "a_expr" or condition.a_expr.kind != pb.AEXPR_OP:
        return
    both = condition.a_expr.lexpr, condition.a_expr.rexpr
    if condition.a_expr.name[0].string.sval == "=" and all(each.WhichOneof("node") == "column_ref" for each in both):
        yield both[0].column_ref, both[1].column_ref


def equal_columns(equal: Iterable[Equality], left: Source, right: Source) -> Iterable[tuple[Key, Key]]:
    """Yields the columns of two sources among those that must be the same."""
    for both in equal:
        for one, other in (both, both[::-1]):
            left_key, right_key = _key(one, left), _key(other, right)
            if left_key and right_key:
                yield left_key, right_key


def same_named(left: Source, right: Source, names: Iterable[str]) -> Iterable[tuple[Key, Key]]:
    """Yields the columns of given names in two sources, for USING."""
    for name in names:
        ones = [relation for relation in left.relations if name in relation.named]
        others = [relation for relation in right.relations if name in relation.named]
        yield from (((id(one), name), (id(other), name)) for one in ones for other in others)


def _key(reference: pb.ColumnRef, source: Source) -> Key | None:
    names = [part.string.sval for part in reference.fields]
    for relation in source.relations:
        if names[-1] in relation.named and names[:-1] in ([], [relation.name]):
            return id(relation), names[-1]
    return None
