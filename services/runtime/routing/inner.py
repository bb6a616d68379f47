"""Graphs that nodes run inside: what a checkpoint below a node needs, known before there is anything to make it of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from langgraph.graph.state import CompiledStateGraph

from services.runtime.errors import InvalidGraphError


@dataclass(frozen=True)
class InnerGraph:
    """The nodes of a graph that a node runs, and the type of its state."""

    nodes: frozenset[str]
    state: type

    @classmethod
    def of(cls, graph: CompiledStateGraph[Any, Any, Any, Any]) -> Self:
        """Returns what a graph is."""
        return cls(frozenset(graph.nodes), graph.builder.state_schema)

    def check(self, graph: CompiledStateGraph[Any, Any, Any, Any]) -> None:
        """Raises InvalidGraphError when a graph is not what was said of it."""
        found = InnerGraph.of(graph)
        fields = [set(each.__annotations__) for each in (self.state, found.state)]
        if found.nodes != self.nodes or fields[0] - fields[1]:
            raise InvalidGraphError(
                f"the graph {graph.name!r} has the nodes {sorted(found.nodes)} and the state {sorted(fields[1])}, "
                f"which is not what was said of it: {sorted(self.nodes)} and {sorted(fields[0])}"
            )
