"""A store whose every call is counted and timed, whichever database is behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from signalbox.v1 import tools_pb2

from services.graph_executor.elements import EdgeName, EdgeState, NodeName, NodeState
from services.graph_executor.errors import GraphAway, GraphFull
from services.graph_executor.metrics import CHANGES_MADE, QUERIES, QUERIES_ACTIVE, QUERY_DURATION
from services.graph_executor.store import FoundPath, GraphStore, KeptChange, Record, Rows, Search
from services.kit.tools.effects import Overtaken, Seen, WriteCall
from services.kit.tools.executor import ToolRefused


class MeasuredStore:
    """A GraphStore over another."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    async def reach(self) -> None:
        """Checks that the server answers and can be used."""
        await self._store.reach()

    async def look_up(self, graph: str, call: WriteCall) -> Seen:
        """Returns what is known of a call."""
        with _measured("record"):
            return await self._store.look_up(graph, call)

    async def fence(self, graph: str, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far."""
        with _measured("record"):
            await self._store.fence(graph, call)

    async def commit(self, graph: str, record: Record) -> None:
        """Makes a change and keeps its record. Raises Overtaken."""
        with _measured("change"):
            await self._store.commit(graph, record)
        CHANGES_MADE.labels("undo" if record.turns else "change").inc()

    async def changes(self, graph: str, run_id: str) -> list[KeptChange]:
        """Returns the changes of a run, in order."""
        with _measured("record"):
            return await self._store.changes(graph, run_id)

    async def node(self, graph: str, name: NodeName) -> NodeState | None:
        """Returns a node. Raises ToolRefused when there are several."""
        with _measured("element"):
            return await self._store.node(graph, name)

    async def edge(self, graph: str, name: EdgeName) -> EdgeState | None:
        """Returns an edge. Raises ToolRefused when there are several."""
        with _measured("element"):
            return await self._store.edge(graph, name)

    async def edges_of(self, graph: str, name: NodeName, most: int) -> list[tuple[EdgeName, EdgeState]]:
        """Returns the edges of a node. Raises ToolRefused for more, and for those that can't be named."""
        with _measured("element"):
            return await self._store.edges_of(graph, name, most)

    async def search(self, graph: str, search: Search) -> list[FoundPath]:
        """Returns what is found."""
        with _measured("search"):
            return await self._store.search(graph, search)

    async def read(self, graph: str, query: str, parameters: Mapping[str, Any]) -> Rows:
        """Runs a query of which the engine makes sure that it only reads. Raises ToolRefused."""
        with _measured("cypher_read"):
            return await self._store.read(graph, query, parameters)

    async def write(self, graph: str, query: str, parameters: Mapping[str, Any], record: Record) -> Rows:
        """Runs a query that writes, and keeps its record with it. Raises Overtaken, ToolRefused."""
        with _measured("cypher_write"):
            rows = await self._store.write(graph, query, parameters, record)
        CHANGES_MADE.labels("cypher").inc()
        return rows

    async def complete(self, graph: str, call: WriteCall, response: tools_pb2.CallToolResponse) -> Seen:
        """Keeps what a writing query gave as its call's result, unless it has one; returns what is known then."""
        with _measured("record"):
            return await self._store.complete(graph, call, response)


@contextmanager
def _measured(kind: str) -> Iterator[None]:
    outcome, began = "failed", time.perf_counter()
    try:
        with QUERIES_ACTIVE.track_inprogress():
            yield
        outcome = "ok"
    except ToolRefused as refused:
        outcome = "timeout" if refused.reason == "timeout" else "refused"
        raise
    except GraphAway:
        outcome = "away"
        raise
    except GraphFull:
        outcome = "full"
        raise
    except Overtaken:
        outcome = "overtaken"
        raise
    finally:
        QUERY_DURATION.labels(kind).observe(time.perf_counter() - began)
        QUERIES.labels(kind, outcome).inc()
