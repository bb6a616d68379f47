"""What changes are planned from: the graph as it is, and as it would be after changes that are not made yet."""

from __future__ import annotations

from typing import Protocol

from services.graph_executor.elements import Change, EdgeName, EdgeState, NodeName, NodeState
from services.graph_executor.store import GraphStore


class View(Protocol):
    """A graph that can be looked at."""

    async def node(self, name: NodeName) -> NodeState | None:
        """Returns a node."""

    async def edge(self, name: EdgeName) -> EdgeState | None:
        """Returns an edge."""

    async def edges_of(self, name: NodeName) -> dict[EdgeName, EdgeState]:
        """Returns the edges of a node. Raises ToolRefused when there are too many."""


class StoredView:
    """The graph as it is."""

    def __init__(self, store: GraphStore, graph: str, most_edges: int) -> None:
        self._store = store
        self._graph = graph
        self._most_edges = most_edges

    async def node(self, name: NodeName) -> NodeState | None:
        """Returns a node."""
        return await self._store.node(self._graph, name)

    async def edge(self, name: EdgeName) -> EdgeState | None:
        """Returns an edge."""
        return await self._store.edge(self._graph, name)

    async def edges_of(self, name: NodeName) -> dict[EdgeName, EdgeState]:
        """Returns the edges of a node. Raises ToolRefused when there are too many."""
        return dict(await self._store.edges_of(self._graph, name, self._most_edges))


class ChangedView:
    """A view with changes laid over it; nothing is written."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._nodes: dict[NodeName, NodeState | None] = {}
        self._edges: dict[EdgeName, EdgeState | None] = {}

    def apply(self, change: Change) -> None:
        """Lays a change over it."""
        self._nodes.update({each.name: each.after for each in change.nodes})
        self._edges.update({each.name: each.after for each in change.edges})

    async def node(self, name: NodeName) -> NodeState | None:
        """Returns a node."""
        return self._nodes[name] if name in self._nodes else await self._view.node(name)

    async def edge(self, name: EdgeName) -> EdgeState | None:
        """Returns an edge."""
        return self._edges[name] if name in self._edges else await self._view.edge(name)

    async def edges_of(self, name: NodeName) -> dict[EdgeName, EdgeState]:
        """Returns the edges of a node. Raises ToolRefused when there are too many."""
        changed = {edge: state for edge, state in self._edges.items() if name in (edge.start, edge.end)}
        edges = {**await self._view.edges_of(name), **changed}
        return {edge: state for edge, state in edges.items() if state is not None}
