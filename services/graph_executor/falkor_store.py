"""Graphs in FalkorDB, and beside them in each graph what is kept of calls."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from signalbox.v1 import tools_pb2

from services.graph_executor.commit_query import RECORD, STRICT_FENCE, CommitQuery
from services.graph_executor.elements import KEY
from services.graph_executor.errors import GraphUnfit
from services.graph_executor.falkor import Falkor
from services.graph_executor.policy import LONGEST_TIMEOUT_MS, GraphPolicy, Limits
from services.graph_executor.records import (
    CHANGES,
    COMPLETE,
    FENCE_RUN,
    FREEZE,
    LOOK_UP,
    RESULT_LABEL,
    RUN_LABEL,
    call_key,
    complete_parameters,
    fence_parameters,
    kept_properties,
    look_up_parameters,
    read_change,
    read_look_up,
    run_key,
)
from services.graph_executor.search_query import SearchQuery
from services.graph_executor.store import FoundPath, KeptChange, Record, Rows, Search
from services.graph_executor.stored_elements import FindsElements, StoredElements
from services.graph_executor.values import json_rows
from services.kit.tools.effects import Overtaken, Seen, WriteCall
from services.kit.tools.executor import ToolRefused


class FalkorStore(FindsElements):
    """A GraphStore over a FalkorDB server, for the labels and types of a policy."""

    def __init__(self, falkor: Falkor, policy: GraphPolicy) -> None:
        self._falkor = falkor
        self._policy = policy
        self._prepared: set[str] = set()

    async def reach(self) -> None:
        """Checks that the server answers. Raises GraphAway, and ToolRefused when its user may not set its bounds."""
        await self._falkor.command("PING")

    async def look_up(self, graph: str, call: WriteCall) -> Seen:
        """Returns what is known of a call."""
        await self.prepare(graph)
        result = await self._falkor.read(graph, LOOK_UP, look_up_parameters(call))
        seen, final = read_look_up(result.result_set)
        if final:
            return seen
        # Whoever is told of a result, it is final.
        await self._falkor.query(graph, FREEZE, {"key": call_key(call)})
        return await self.look_up(graph, call)

    async def fence(self, graph: str, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far."""
        await self.prepare(graph)
        await self._falkor.query(graph, FENCE_RUN, fence_parameters(call))

    async def commit(self, graph: str, record: Record) -> None:
        """Makes a change and keeps its record. Raises Overtaken."""
        query = CommitQuery(record.change, _parameters(record), record.turns)
        result = await self._falkor.query(graph, query.text, query.parameters)
        if not result.result_set:
            raise Overtaken

    async def changes(self, graph: str, run_id: str) -> list[KeptChange]:
        """Returns the changes of a run, in order."""
        await self.prepare(graph)
        result = await self._falkor.read(graph, CHANGES, {"run": run_id})
        return [read_change(row) for row in result.result_set]

    async def search(self, graph: str, search: Search) -> list[FoundPath]:
        """Returns what is found."""
        await self.prepare(graph)
        query = SearchQuery(search)
        result = await self._falkor.read(graph, query.text, query.parameters)
        return [query.path(row) for row in result.result_set]

    async def read(self, graph: str, query: str, parameters: Mapping[str, Any]) -> Rows:
        """Runs a query of which the server makes sure that it only reads. Raises ToolRefused."""
        await self.prepare(graph)
        return json_rows(await self._falkor.read_for_caller(graph, query, parameters))

    async def write(self, graph: str, query: str, parameters: Mapping[str, Any], record: Record) -> Rows:
        """Runs a query that writes, and keeps its record with it. Raises Overtaken, ToolRefused."""
        # The run's own node is there then, and what the record adds to the counts is always the same.
        await self.fence(graph, record.call)
        kept = _parameters(record)
        try:
            result = await self._falkor.query(graph, f"{STRICT_FENCE} {RECORD} {query}", {**parameters, **kept})
        except ToolRefused as refused:
            seen = await self.look_up(graph, record.call)
            if seen.kept is not None or seen.epoch > record.call.epoch:
                raise Overtaken from refused
            raise
        return _without_record(json_rows(result), kept["signalbox_record"])

    async def complete(self, graph: str, call: WriteCall, response: tools_pb2.CallToolResponse) -> Seen:
        """Keeps what a writing query gave as its call's result, unless it has one; returns what is known then."""
        await self._falkor.query(graph, COMPLETE, complete_parameters(call, response))
        return await self.look_up(graph, call)

    async def prepare(self, graph: str) -> None:
        """Makes the indexes and constraints of a graph, once in a process. Raises GraphUnfit."""
        if graph in self._prepared:
            return
        await self._index(graph, RESULT_LABEL, "run")
        for label in (RESULT_LABEL, RUN_LABEL, *self._policy.labels):
            await self._index(graph, label, KEY)
            # Counted first: who writes nodes has made the constraint before.
            nodes = await self._falkor.read(graph, f"MATCH (n:{label}) RETURN count(n.{KEY}), count(n) LIMIT 1", {})
            if label in await self._constrained(graph):
                continue
            if nodes.result_set[0][1]:
                # Over keys that it can't hold, the server does not refuse a constraint: it dies.
                raise GraphUnfit(
                    f"the graph {graph} has nodes of the label {label}, and no unique constraint on their property "
                    f"{KEY}; see that no key begins or ends with white space, then make that constraint"
                )
            for kind in ("MANDATORY", "UNIQUE"):
                arguments = ("GRAPH.CONSTRAINT", "CREATE", graph, kind, "NODE", label, "PROPERTIES", 1, KEY)
                await self._unless_there(self._falkor.command(*arguments))
        self._prepared.add(graph)

    async def _constrained(self, graph: str) -> set[str]:
        found = await self._falkor.read(graph, "CALL db.constraints() YIELD type, label, properties", {})
        return {label for kind, label, properties in found.result_set if kind == "UNIQUE" and properties == [KEY]}

    async def _index(self, graph: str, label: str, name: str) -> None:
        await self._unless_there(self._falkor.query(graph, f"CREATE INDEX FOR (n:{label}) ON (n.{name})", {}))

    @staticmethod
    async def _unless_there(made: Awaitable[object]) -> None:
        try:
            await made
        except ToolRefused as refused:
            if "already" not in refused.message:
                raise

    async def elements(self, graph: str) -> StoredElements:
        await self.prepare(graph)
        return StoredElements(self._policy, partial(self._rows, graph))

    async def _rows(self, graph: str, text: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        found: list[list[Any]] = (await self._falkor.read(graph, text, parameters)).result_set
        return found


def server_bounds(limits: Limits) -> dict[str, int]:
    """Returns the bounds that a server must keep, by the names that it has for them."""
    return {
        # Without these two the server heeds the timeout of a query only while that reads. Each query brings its own,
        # which may not be longer: so they are the longest that any policy may say.
        "TIMEOUT_MAX": LONGEST_TIMEOUT_MS,
        "TIMEOUT_DEFAULT": LONGEST_TIMEOUT_MS,
        "QUERY_MEM_CAPACITY": limits.query_memory_bytes,
        # Records of a run and edges of a node are read whole.
        "RESULTSET_SIZE": max(limits.rows, limits.node_edges, 10_000) + 1,
    }


def _without_record(rows: Rows, kept: Mapping[str, Any]) -> Rows:
    """Takes from the counts of a writing query what its record added."""
    # Besides what it is given the record has a key and a number, and the run another number of calls.
    # The server counts that as a property removed too.
    added = {"nodes_created": 1, "properties_set": len(kept) + 3, "properties_removed": 1}
    counts = {name: max(0, count - added.get(name, 0)) for name, count in rows.counts.items()}
    return replace(rows, counts=counts)


def _parameters(record: Record) -> dict[str, Any]:
    return {
        "signalbox_key": call_key(record.call),
        "signalbox_run": run_key(record.call),
        "signalbox_epoch": record.call.epoch,
        "signalbox_record": kept_properties(record),
    }
