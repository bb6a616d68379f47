"""The tables that a query reads, and where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from postgast import pg_query_pb2 as pb

from services.sql_executor.policy import TableName


class Place(NamedTuple):
    """Where a table stands: in which SELECT, and whether its WHERE filters the table before anything is joined to it.

    `left_join` is the LEFT JOIN whose right side the table is by itself: its ON filters it.
    """

    select: pb.SelectStmt
    is_plain: bool = True
    left_join: pb.JoinExpr | None = None

    def conditions(self, named: pb.RangeVar) -> pb.Node | None:
        """Returns what filters a table here before anything is joined to it; None when nothing does."""
        if named.alias.colnames:  # its columns may have other names
            return None
        if self.left_join is not None:
            return self.left_join.quals
        return self.select.where_clause if self.is_plain else None


@dataclass(frozen=True)
class TableUse:
    """A table that a query reads, its node in the tree, and where that stands."""

    table: TableName
    node: pb.Node
    place: Place


def places(join: pb.JoinExpr, place: Place) -> tuple[Place, Place]:
    """Returns where the two sides of a join stand that stands in a place."""
    is_plain = place.is_plain and not join.is_natural and not join.HasField("alias")
    is_left = join.jointype == pb.JOIN_LEFT
    left = Place(place.select, is_plain and (is_left or join.jointype == pb.JOIN_INNER))
    if is_left and is_plain and join.HasField("quals") and join.rarg.WhichOneof("node") == "range_var":
        return left, Place(place.select, False, join)
    return left, Place(place.select, is_plain and join.jointype == pb.JOIN_INNER)
