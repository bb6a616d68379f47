"""Graphs in databases of a server that speaks Bolt, and beside them in each what is kept of calls.

A change is one transaction: it takes the graph's turn, checks that all is as it was read, changes it, and keeps the
record. The turn is a node that each of them writes first, so the next one waits for it, or is refused and begins again:
no two can both find that nothing has changed, whatever a server isolates.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from signalbox.v1 import tools_pb2

from services.graph_executor.bolt import Bolt, BoltResult, BoltTransaction
from services.graph_executor.bolt_change import keep, make, take_turn
from services.graph_executor.elements import KEY
from services.graph_executor.errors import GraphUnfit
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.records import (
    CHANGES,
    COMPLETE,
    FENCE_RUN,
    FREEZE,
    LOOK_UP,
    RESULT_LABEL,
    RUN_LABEL,
    TURN_LABEL,
    call_key,
    complete_parameters,
    fence_parameters,
    look_up_parameters,
    read_change,
    read_look_up,
)
from services.graph_executor.search_query import SearchQuery
from services.graph_executor.store import FoundPath, KeptChange, Record, Rows, Search
from services.graph_executor.stored_elements import FindsElements, StoredElements
from services.graph_executor.values import json_cells
from services.kit.tools.effects import Seen, WriteCall
from services.kit.tools.executor import ToolRefused

# The counts of a result, without which no query says anything.
_COUNTS: Final = (
    "nodes_created", "nodes_deleted", "relationships_created", "relationships_deleted", "properties_set",
    "labels_added", "labels_removed",
)  # fmt: skip
_PLAIN: Final = re.compile(r"[a-z0-9]+")
LONGEST_DATABASE_NAME: Final = 63


class BoltStore(FindsElements):
    """A GraphStore over a server that speaks Bolt, for the labels and types of a policy."""

    def __init__(self, bolt: Bolt, policy: GraphPolicy) -> None:
        self._bolt = bolt
        self._policy = policy
        self._prepared: set[str] = set()

    async def reach(self) -> None:
        """Checks that the server answers. Raises GraphAway, and ToolRefused for a server that is not known."""
        await self._bolt.server()

    async def look_up(self, graph: str, call: WriteCall) -> Seen:
        """Returns what is known of a call."""
        await self.prepare(graph)
        seen, final = read_look_up(await self._rows(graph, LOOK_UP, look_up_parameters(call)))
        if final:
            return seen
        # Whoever is told of a result, it is final.
        await self._write(graph, FREEZE, {"key": call_key(call)})
        return await self.look_up(graph, call)

    async def fence(self, graph: str, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far."""
        await self.prepare(graph)
        await self._write(graph, FENCE_RUN, fence_parameters(call))

    async def commit(self, graph: str, record: Record) -> None:
        """Makes a change and keeps its record. Raises Overtaken."""

        async def work(transaction: BoltTransaction) -> None:
            await take_turn(transaction, record)
            await make(transaction, self._policy, record)
            await keep(transaction, record)

        await self._bolt.write(database_of(graph), work)

    async def changes(self, graph: str, run_id: str) -> list[KeptChange]:
        """Returns the changes of a run, in order."""
        await self.prepare(graph)
        return [read_change(row) for row in await self._rows(graph, CHANGES, {"run": run_id})]

    async def search(self, graph: str, search: Search) -> list[FoundPath]:
        """Returns what is found."""
        await self.prepare(graph)
        query = SearchQuery(search, same="{0} = {1}")
        return [query.path(row) for row in await self._rows(graph, query.text, query.parameters)]

    async def read(self, graph: str, query: str, parameters: Mapping[str, Any]) -> Rows:
        """Runs a query in a transaction that only reads, and is rolled back where a server does not heed that.

        Raises ToolRefused.
        """
        await self.prepare(graph)
        result = await self._bolt.read(database_of(graph), partial(self._callers, query, parameters))
        if result.writes:
            raise ToolRefused("write_refused", "The query would write; this call may only read.")
        return _told(result)

    async def write(self, graph: str, query: str, parameters: Mapping[str, Any], record: Record) -> Rows:
        """Runs a query that writes, and keeps its record with it. Raises Overtaken, ToolRefused."""
        await self.prepare(graph)

        async def work(transaction: BoltTransaction) -> BoltResult:
            await take_turn(transaction, record)
            result = await self._callers(query, parameters, transaction)
            for label in self._policy.labels:
                found = await transaction.rows(f"MATCH (n:{label}) WHERE n.{KEY} IS NULL RETURN 1 LIMIT 1", {})
                if found:
                    raise ToolRefused("query_failed", f"The query would leave a {label} without its {KEY}.")
            await keep(transaction, record)
            return result

        return _told(await self._bolt.write(database_of(graph), work))

    async def complete(self, graph: str, call: WriteCall, response: tools_pb2.CallToolResponse) -> Seen:
        """Keeps what a writing query gave as its call's result, unless it has one; returns what is known then."""
        await self._write(graph, COMPLETE, complete_parameters(call, response))
        return await self.look_up(graph, call)

    async def prepare(self, graph: str) -> None:
        """Makes the indexes and constraints of a graph, once in a process. Raises GraphUnfit, GraphMissing."""
        if graph in self._prepared:
            return
        server, database = await self._bolt.server(), database_of(graph)
        unique = server.uniquely(await self._bolt.define(database, server.constraints))
        for label in (RESULT_LABEL, RUN_LABEL, TURN_LABEL, *self._policy.labels):
            if label in unique:
                continue
            try:
                await self._bolt.define(database, server.unique.format(label=label, property=KEY))
            except ToolRefused as refused:
                if label not in server.uniquely(await self._bolt.define(database, server.constraints)):
                    raise GraphUnfit(
                        f"the graph {graph} can't have a unique constraint on the {KEY} of its {label} nodes: "
                        f"{refused.message}"
                    ) from refused
        if RESULT_LABEL not in unique:
            await self._bolt.define(database, server.index.format(label=RESULT_LABEL, property="run"))
        self._prepared.add(graph)

    async def _callers(self, query: str, parameters: Mapping[str, Any], transaction: BoltTransaction) -> BoltResult:
        server = await self._bolt.server()
        bounded = server.bounded.format(kilobytes=self._policy.limits.query_memory_bytes >> 10)
        return await transaction.run(query + bounded, parameters, self._policy.limits.rows + 1)

    async def elements(self, graph: str) -> StoredElements:
        await self.prepare(graph)
        return StoredElements(self._policy, partial(self._rows, graph))

    async def _rows(self, graph: str, text: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        return await self._bolt.look(database_of(graph), lambda transaction: transaction.rows(text, parameters))

    async def _write(self, graph: str, text: str, parameters: Mapping[str, Any]) -> None:
        async def work(transaction: BoltTransaction) -> None:
            await take_turn(transaction)
            await transaction.rows(text, parameters)

        await self._bolt.write(database_of(graph), work)


def database_of(graph: str) -> str:
    """Returns the name of a graph's database: of letters, digits and dashes, as all servers take them.

    Of a graph that a claim names it is the first part of its name with the claim's value, if that is so plain, or with
    a digest of it. Two graphs never have one database.
    """
    name, claimed, value = graph.partition(":")
    if not claimed:
        return name
    plain = unquote(value)
    if _PLAIN.fullmatch(plain) and len(name) + 1 + len(plain) <= LONGEST_DATABASE_NAME:
        return f"{name}-{plain}"
    return f"{name}--{hashlib.sha256(plain.encode()).hexdigest()[:32]}"


def _told(result: BoltResult) -> Rows:
    labels: set[str] = set()
    rows = [json_cells(row, labels) for row in result.rows]
    counts = {name.replace("relationships", "edges"): result.counts.get(name, 0) for name in _COUNTS}
    return Rows(result.columns, rows, counts, frozenset(labels))
