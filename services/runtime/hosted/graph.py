"""The outline of a hosted graph: what the engine asks of a graph of its own kind, answered for one that was brought."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from signalbox_routing.table import Router

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.tools.names import OFFERED
from services.runtime.engine.snapshot import BRANCH, JOIN
from services.runtime.errors import InvalidGraphError
from services.runtime.hosted.adapter import STEPS_CHANNEL, STOPS_CHANNEL, nodes_of
from services.runtime.hosted.lifting.lifted import INSIDE, LiftedGraph
from services.runtime.hosted.schemas import Schemas
from services.runtime.routing.digest import digest
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.inner import InnerGraph

Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class HostedNode(RoutedNode):
    """A node of a hosted graph, and where it may lead; what it leads by is in its own code.

    `lifted` is the table of that code, if it is one and has one; `decided_by` says what its one conditional edge is by,
    and `reads` which fields of the state it is given.
    """

    ways: tuple[str, ...] = (END,)
    lifted: Router[Any, Any] | None = None
    decided_by: str = ""
    reads: tuple[str, ...] = ()


async def _not_here(*_: object) -> dict[str, Any]:
    raise InvalidGraphError("an outline runs nothing")


@dataclass(frozen=True)
class HostedGraph(AgentGraph):
    """A hosted graph's outline."""

    channels: frozenset[str] = field(default_factory=frozenset)
    code_version: str = ""
    edges: tuple[tuple[str, str], ...] = ()
    schemas: Schemas | None = None
    lifted: LiftedGraph = field(default_factory=LiftedGraph)

    @property
    def tables(self) -> tuple[tuple[str, Router[Any, Any]], ...]:
        """The tables that its path functions were lifted to, each with the node that it follows."""
        return self.lifted.tables

    @classmethod
    def of(
        cls,
        name: str,
        graph: Graph,
        code_version: str,
        schemas: Schemas,
        max_steps: int,
        lifted: LiftedGraph,
        tools: Iterable[str] = (),
    ) -> HostedGraph:
        """Returns the outline of a graph; `tools` are those of executors that it may call, besides the platform's."""
        tables = lifted.by_node
        ways = _ways(graph)
        starts = ways.pop(START, ())
        inner = {place: spec.runnable for place, spec in graph.builder.nodes.items()}
        nodes = tuple(
            HostedNode(
                place,
                _not_here,
                then=ways.get(place, (END,))[0],
                ways=ways.get(place, (END,)),
                inner=_inner(inner.get(place)),
                lifted=tables.get(place),
                decided_by=lifted.decided_by(place),
                reads=_reads(of, place.rpartition(INSIDE)[2]),
            )
            for place, of in nodes_of(graph)
        )
        return cls(
            name=name,
            state=graph.builder.state_schema,
            entry=starts[0] if starts else START,
            nodes=nodes,
            tools=frozenset(itertools.chain(tools, *OFFERED.values())),
            max_steps=max_steps,
            channels=frozenset(graph.channels)
            | {STEPS_CHANNEL}
            | ({STOPS_CHANNEL} if graph.interrupt_after_nodes else set()),
            code_version=code_version,
            edges=tuple(sorted((start, to) for start, leads in {**ways, START: starts}.items() for to in leads)),
            schemas=schemas,
            lifted=lifted,
        )

    @cached_property
    def version(self) -> str:
        """A digest of code, nodes, edges and schemas: code is no data, so that other code is another version."""
        nodes = sorted(node.name for node in self.nodes)
        schemas = [self.schemas.input, self.schemas.context, self.schemas.output] if self.schemas else []
        return digest([self.name, self.code_version, nodes, self.edges, sorted(self.channels), schemas])

    def check(self) -> None:
        """Finds nothing wrong: LangGraph has compiled it."""


def _reads(graph: Graph, node: str) -> tuple[str, ...]:
    builder = graph.builder
    return tuple(name for name in builder.schemas[builder.nodes[node].input_schema] if name in builder.channels)


def _inner(runnable: Any) -> InnerGraph | None:
    return InnerGraph.of(runnable) if isinstance(runnable, CompiledStateGraph) else None


def _ways(graph: Graph, prefix: str = "") -> dict[str, tuple[str, ...]]:
    """Returns where each node may lead, as far as edges say it."""
    builder = graph.builder
    ways: dict[str, list[str]] = {START: [], **{name: [] for name in builder.nodes}}
    for start, to in sorted(builder._all_edges):
        ways[start].append(to)
    for start, branches in builder.branches.items():
        for branch in branches.values():
            ways[start] += list(branch.ends.values()) if branch.ends else [*builder.nodes, END]
    for name, spec in builder.nodes.items():
        ways[name] += list(spec.ends or ())
    found = {
        f"{prefix}{name}" if name != START or not prefix else START: tuple(
            dict.fromkeys(to if to == END else f"{prefix}{to}" for to in leads)
        )
        or (END,)
        for name, leads in ways.items()
    }
    for name, spec in builder.nodes.items():
        if isinstance(spec.runnable, CompiledStateGraph):
            inside: Mapping[str, tuple[str, ...]] = _ways(spec.runnable, f"{prefix}{name}/")
            found |= {place: leads for place, leads in inside.items() if place != START}
    return found


def check_update(graph: AgentGraph, update: Mapping[str, Any] | None, as_node: str) -> None:
    """Checks that a graph has the fields that its state is to be changed in, and the node. Raises InvalidRequest.

    Without an update the node may be the end: then nothing is to run next.
    """
    if update is None and as_node == END:
        return
    fields = {name for name in graph.channels if not _is_internal(name)} if isinstance(graph, HostedGraph) else set()
    violations = [
        FieldViolation(f"update.{name}", f"no field of the state; there are {', '.join(sorted(fields))}")
        for name in sorted((update or {}).keys() - fields)
    ]
    nodes = sorted(node.name for node in graph.nodes if INSIDE not in node.name)
    if as_node and as_node not in nodes:
        violations.append(FieldViolation("as_node", f"no node of the graph; there are {', '.join(nodes)}"))
    if violations:
        raise InvalidRequest(f"the state of {graph.name!r} can't be changed so", violations=violations)


def _is_internal(channel: str) -> bool:
    return channel.startswith(("__", BRANCH, JOIN))
