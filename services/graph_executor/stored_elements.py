"""Nodes and edges as a graph database holds them, found by the queries that any Cypher takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from services.graph_executor.elements import EdgeName, EdgeState, NodeName, NodeState
from services.graph_executor.policy import GraphPolicy
from services.kit.tools.executor import ToolRefused

RunsQuery = Callable[[str, Mapping[str, Any]], Awaitable[list[list[Any]]]]


class StoredElements:
    """The nodes and edges that `rows` finds: what runs a query that reads, and returns its rows."""

    def __init__(self, policy: GraphPolicy, rows: RunsQuery) -> None:
        self._policy = policy
        self._rows = rows

    async def node(self, name: NodeName) -> NodeState | None:
        """Returns a node. Raises ToolRefused when there are several."""
        text = f"MATCH (n:{name.label} {{key: $key}}) RETURN labels(n), properties(n) LIMIT 2"
        found = await self._rows(text, {"key": name.key})
        if len(found) > 1:
            raise ToolRefused("ambiguous_key", f"There are several nodes {name}; they were not made with these tools.")
        return self._node_state(found[0][0], found[0][1], name) if found else None

    async def edge(self, name: EdgeName) -> EdgeState | None:
        """Returns an edge. Raises ToolRefused when there are several."""
        text = (
            f"MATCH (:{name.start.label} {{key: $start}})-[e:{name.type}]->(:{name.end.label} {{key: $end}}) "
            "RETURN properties(e), labels(startNode(e)), labels(endNode(e)) LIMIT 2"
        )
        found = await self._rows(text, {"start": name.start.key, "end": name.end.key})
        if len(found) > 1:
            raise ToolRefused("ambiguous_edge", f"There are several edges {name}; they were not made with these tools.")
        return _edge_state(*found[0]) if found else None

    async def edges_of(self, name: NodeName, most: int) -> list[tuple[EdgeName, EdgeState]]:
        """Returns the edges of a node. Raises ToolRefused for more, and for those that can't be named."""
        text = (
            f"MATCH (n:{name.label} {{key: $key}})-[e]-(m) WITH DISTINCT e "
            "RETURN type(e), properties(e), labels(startNode(e)), startNode(e).key, labels(endNode(e)), endNode(e).key "
            f"LIMIT {most + 1}"
        )
        found = await self._rows(text, {"key": name.key})
        if len(found) > most:
            raise ToolRefused("too_many_edges", f"The node {name} has more than {most} edges; delete some first.")
        edges = [self._edge(name, *row) for row in found]
        if len({edge for edge, _ in edges}) < len(edges):
            raise ToolRefused("ambiguous_edge", f"The node {name} has several edges of one type to one node.")
        return edges

    def _node_state(self, labels: list[str], properties: Mapping[str, Any], name: NodeName) -> NodeState:
        if not set(labels) <= set(self._policy.labels):
            raise ToolRefused("label_refused", f"The node {name} has labels that the policy does not name.")
        return NodeState(tuple(sorted(labels)), _plain_properties(properties))

    def _edge(
        self,
        of: NodeName,
        kind: str,
        properties: Mapping[str, Any],
        starts: list[str],
        start: Any,
        ends: list[str],
        end: Any,
    ) -> tuple[EdgeName, EdgeState]:
        rule = self._policy.edges.get(kind)
        names = rule and (self._end(of, starts, start, rule.start), self._end(of, ends, end, rule.end))
        if not names or not all(name.label and isinstance(name.key, str) for name in names):
            raise ToolRefused("unknown_edge", f"An edge of the type {kind!r} is there that the policy does not name.")
        return EdgeName(kind, *names), _edge_state(properties, starts, ends)

    def _end(self, of: NodeName, labels: list[str], key: Any, allowed: Collection[str]) -> NodeName:
        """Names an end of an edge: the node whose edge it is as that was named, another by a label that leads there."""
        if key == of.key and of.label in labels:
            return of
        known = sorted(self._policy.labels.keys() & set(labels), key=lambda label: (label not in allowed, label))
        return NodeName(known[0] if known else "", key)


class FindsElements(ABC):
    """Finds the nodes and edges of any graph of a server."""

    @abstractmethod
    async def elements(self, graph: str) -> StoredElements:
        """Returns what is stored in a graph."""

    async def node(self, graph: str, name: NodeName) -> NodeState | None:
        """Returns a node. Raises ToolRefused when there are several."""
        return await (await self.elements(graph)).node(name)

    async def edge(self, graph: str, name: EdgeName) -> EdgeState | None:
        """Returns an edge. Raises ToolRefused when there are several."""
        return await (await self.elements(graph)).edge(name)

    async def edges_of(self, graph: str, name: NodeName, most: int) -> list[tuple[EdgeName, EdgeState]]:
        """Returns the edges of a node. Raises ToolRefused for more, and for those that can't be named."""
        return await (await self.elements(graph)).edges_of(name, most)


def _edge_state(properties: Mapping[str, Any], starts: list[str], ends: list[str]) -> EdgeState:
    return EdgeState(_plain_properties(properties), (frozenset(starts), frozenset(ends)))


def _plain_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in properties.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float | bool) for item in items):
            raise ToolRefused("unsupported_value", f"The property {name!r} holds a value that these tools don't know.")
    return dict(properties)
