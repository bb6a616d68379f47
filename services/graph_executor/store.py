"""What the executor asks of a graph database: `FalkorStore`, and `BoltStore` for servers that speak Bolt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from signalbox.v1 import tools_pb2

from services.graph_executor.elements import Change, EdgeName, EdgeState, NodeName, NodeState
from services.kit.tools.effects import Seen, WriteCall


@dataclass(frozen=True)
class Condition:
    """What a property must be: compared with a value by an operator of `Search.OPERATORS`."""

    property: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Step:
    """An edge to follow: its type, whether along it ("out"), against it ("in") or either way ("any"), and to what."""

    type: str
    direction: str
    label: str
    conditions: Sequence[Condition] = ()


@dataclass(frozen=True)
class Search:
    """What to look for: nodes of a label, and from each along steps; all names come from the policy.

    A node that has a label which is not `readable` is not found.
    """

    label: str
    conditions: Sequence[Condition]
    steps: Sequence[Step]
    rows: int
    readable: frozenset[str]


@dataclass(frozen=True)
class FoundNode:
    """A node that was found; `key` is None where another than this executor made it without one."""

    label: str
    key: str | None
    state: NodeState


@dataclass(frozen=True)
class FoundEdge:
    """An edge of a path, and the ends it has in the graph: positions in the path's nodes."""

    type: str
    start: int
    end: int
    state: EdgeState


@dataclass(frozen=True)
class FoundPath:
    """One result of a search."""

    nodes: tuple[FoundNode, ...]
    edges: tuple[FoundEdge, ...]


@dataclass(frozen=True)
class Rows:
    """What a Cypher query gave: values as JSON has them, and for a writing one how much it wrote."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    counts: Mapping[str, int]
    labels: frozenset[str]


@dataclass(frozen=True)
class Record:
    """What is kept of a call: the call, its result, and the change it made."""

    call: WriteCall
    response: tools_pb2.CallToolResponse
    change: Change
    # Whether it wrote what `change` can't say: such a call is not undone.
    opaque: bool = False
    # Which kept changes it takes back and brings back, in turn: the first is the one that it undoes.
    turns: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptChange:
    """A change of a run, as it is kept: under `record`; `number` counts the run's calls.

    `undone` is whether another has taken it back, which has not been taken back itself. `turns` as of its record.
    """

    record: str
    operation_id: str
    number: int
    tool: str
    subject: str
    change: Change
    opaque: bool
    undone: bool
    turns: tuple[str, ...]


class GraphStore(Protocol):
    """Graphs by name. Whatever it can't reach raises GraphAway; a database that is full, GraphFull."""

    async def look_up(self, graph: str, call: WriteCall) -> Seen:
        """Returns what is known of a call."""

    async def fence(self, graph: str, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far."""

    async def reach(self) -> None:
        """Checks that the server answers and can be used."""

    async def commit(self, graph: str, record: Record) -> None:
        """Makes a change and keeps its record, in one query or transaction that checks all of it.

        Of the kept changes that it turns, the first must not be undone already. Raises Overtaken.
        """

    async def changes(self, graph: str, run_id: str) -> list[KeptChange]:
        """Returns the changes of a run, in order."""

    async def node(self, graph: str, name: NodeName) -> NodeState | None:
        """Returns a node. Raises ToolRefused when there are several."""

    async def edge(self, graph: str, name: EdgeName) -> EdgeState | None:
        """Returns an edge. Raises ToolRefused when there are several."""

    async def edges_of(self, graph: str, name: NodeName, most: int) -> list[tuple[EdgeName, EdgeState]]:
        """Returns the edges of a node. Raises ToolRefused for more, and for those that can't be named."""

    async def search(self, graph: str, search: Search) -> list[FoundPath]:
        """Returns what is found."""

    async def read(self, graph: str, query: str, parameters: Mapping[str, Any]) -> Rows:
        """Runs a query of which the engine makes sure that it only reads. Raises ToolRefused."""

    async def write(self, graph: str, query: str, parameters: Mapping[str, Any], record: Record) -> Rows:
        """Runs a query that writes, and keeps its record with it. Raises Overtaken, ToolRefused."""

    async def complete(self, graph: str, call: WriteCall, response: tools_pb2.CallToolResponse) -> Seen:
        """Keeps what a writing query gave as its call's result, unless it has one; returns what is known then."""
