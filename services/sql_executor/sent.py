"""The statement that is sent, read again: each table that it reads has the caller's filter, and each query its fence.

Nothing here trusts how the statement was made. It is given the tree that Postgres' grammar reads in the text, and finds
tables wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from services.kit.telemetry.logs import get_logger
from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import SqlCaller
from services.sql_executor.catalog import Catalog
from services.sql_executor.fences import is_fenced
from services.sql_executor.owner_filter import limited_table, owner_condition
from services.sql_executor.samples import check_sample, sampled, table_in
from services.sql_executor.table_uses import Place, places
from services.sql_executor.tables import visible_table

log = get_logger()

_Names = frozenset[str]


def check_sent(select: pb.SelectStmt, caller: SqlCaller, catalog: Catalog) -> None:
    """Raises ToolRefused unless every table is limited to what the caller may see of it, and every query is fenced."""
    _Sent(caller, catalog).query(select, frozenset())


class _Sent:
    """Walks one statement; `ctes` are the names of WITH queries that are seen from where it is."""

    def __init__(self, caller: SqlCaller, catalog: Catalog) -> None:
        self._caller = caller
        self._catalog = catalog
        # The conditions that have been found to limit a table: what they read is not the statement's own.
        self._found: list[pb.Node] = []

    def query(self, select: pb.SelectStmt, ctes: _Names) -> None:
        if select.HasField("with_clause"):
            named = [node.common_table_expr for node in select.with_clause.ctes]
            seen = ctes.union(each.ctename for each in named) if select.with_clause.recursive else ctes
            for each in named:
                self._walk(each, seen)
                seen |= {each.ctename}
            ctes = seen
        for node in select.from_clause:
            self._source(node, Place(select), ctes)
        for field, value in select.ListFields():
            if field.name not in ("with_clause", "from_clause"):
                for child in _messages(value):
                    self._walk(child, ctes)

    def _source(self, node: pb.Node, place: Place, ctes: _Names) -> None:
        kind = node.WhichOneof("node")
        if kind == "range_var":
            self._table(node, place, ctes)
        elif kind == "range_table_sample":
            check_sample(node)
            self._table(node, place, ctes)
        elif kind == "join_expr":
            left, right = places(node.join_expr, place)
            self._source(node.join_expr.larg, left, ctes)
            self._source(node.join_expr.rarg, right, ctes)
            self._walk(node.join_expr.quals, ctes)
        else:
            self._walk(node, ctes)

    def _table(self, node: pb.Node, place: Place, ctes: _Names) -> None:
        named = table_in(node)
        if not named.schemaname and named.relname in ctes and named.relname not in self._catalog.names:
            return
        table = visible_table(named.schemaname, named.relname, self._catalog)
        limited = limited_table(table, named, self._caller, self._catalog)
        if limited is None:
            return
        condition = owner_condition(table, named.alias.aliasname, self._caller, self._catalog)
        if place.select == sampled(limited, node):
            self._found.append(place.select.where_clause)
        elif table not in self._catalog.partial and condition in _all_of(place.conditions(named)):
            self._found.append(condition)
        else:
            self._refuse(named)

    def _walk(self, message: Message, ctes: _Names) -> None:
        if isinstance(message, pb.SelectStmt):
            self.query(message, ctes)
        elif isinstance(message, pb.RangeVar):  # where no table is expected
            self._refuse(message)
        elif isinstance(message, pb.RangeSubselect | pb.CommonTableExpr) and not is_fenced(message):
            raise ToolRefused("too_large", "A query in FROM or WITH can't be planned by itself; write it another way.")
        elif not isinstance(message, pb.Node) or message not in self._found:
            for _, value in message.ListFields():
                for child in _messages(value):
                    self._walk(child, ctes)

    def _refuse(self, named: pb.RangeVar) -> None:
        log.error("a table in a statement had no filter", table=named.relname)
        raise ToolRefused(
            "unsupported_syntax", f"The table {named.relname!r} can't be limited to your rows here; join it plainly."
        )


def _all_of(condition: pb.Node | None) -> list[pb.Node]:
    """Returns what must be true wherever a condition is."""
    if condition is not None and condition.bool_expr.boolop == pb.AND_EXPR:
        return list(condition.bool_expr.args)
    return [condition] if condition is not None else []


def _messages(value: object) -> Iterator[Message]:
    if isinstance(value, Message):
        yield value
    elif not isinstance(value, str | bytes | int | float):
        yield from (each for each in value if isinstance(each, Message))  # type: ignore[attr-defined]
