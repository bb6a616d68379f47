"""A graph's version is a digest of its nodes, state and tables: it changes with them, and with nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from signalbox_routing.table import END, Router, Rule

from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.inner import InnerGraph
from services.runtime.routing.state import append
from tests.fixtures.replica import Counting, CountingPolicy, CountingState

GRAPH = Counting().graph
COUNT, REPORT = GRAPH.nodes


class Noted(CountingState, total=False):
    """One field more."""

    note: str


class Place(TypedDict):
    """A record."""

    line: int


class Placed(CountingState, total=False):
    """A field that is a record."""

    places: Annotated[list[Place], append]


class Place2(TypedDict):
    """The record with another type inside."""

    line: str


class Placed2(CountingState, total=False):
    """The same field."""

    places: Annotated[list[Place2], append]


class Chosen(CountingState, total=False):
    """A field with choices."""

    choice: Literal["a", "b"]


class Chosen2(CountingState, total=False):
    """The same field with one choice more."""

    choice: Literal["a", "b", "c"]


def rules(router: Router, rules: Sequence[Rule]) -> Router:  # type: ignore[type-arg]
    """The router with other rules."""
    return Router(router.name, facts=router._given, policy=router.policy, rules=rules)


def with_router(router: Router) -> AgentGraph:  # type: ignore[type-arg]
    """The graph with another table."""
    return replace(GRAPH, nodes=(replace(COUNT, router=router), REPORT))


def with_inner(*nodes: str) -> AgentGraph:
    """The graph with a graph inside a node."""
    builder: StateGraph = StateGraph(CountingState)  # type: ignore[type-arg]
    for node in nodes:
        builder.add_node(node, lambda _: {})
    builder.add_edge(START, nodes[0])
    return replace(GRAPH, nodes=(replace(COUNT, inner=InnerGraph.of(builder.compile())), REPORT))


assert COUNT.router is not None
TABLE = COUNT.router
CHANGED = {
    "a node with another name": replace(GRAPH, nodes=(COUNT, RoutedNode("tell", REPORT.run))),
    "a node more": replace(GRAPH, nodes=(*GRAPH.nodes, RoutedNode("more", REPORT.run))),
    "another entry": replace(GRAPH, entry="report"),
    "another way on": replace(GRAPH, nodes=(COUNT, replace(REPORT, then="count"))),
    "a rule less": with_router(rules(TABLE, TABLE.rules[1:])),
    "another order": with_router(rules(TABLE, [TABLE.rules[1], TABLE.rules[0], *TABLE.rules[2:]])),
    "another destination": with_router(rules(TABLE, [replace(TABLE.rules[0], to=END), *TABLE.rules[1:]])),
    "another update": with_router(rules(TABLE, [replace(TABLE.rules[0], then=None), *TABLE.rules[1:]])),
    "another field": replace(GRAPH, state=Noted),
    "a record": replace(GRAPH, state=Placed),
    "another record": replace(GRAPH, state=Placed2),
    "choices": replace(GRAPH, state=Chosen),
    "other choices": replace(GRAPH, state=Chosen2),
    "a graph inside": with_inner("model", "tools"),
    "another graph inside": with_inner("model"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_it_changes_with(what: str) -> None:
    others = [GRAPH.version, *(graph.version for name, graph in CHANGED.items() if name != what)]
    assert CHANGED[what].version not in others


def test_it_does_not_change_with_code_and_limits() -> None:
    assert Counting(CountingPolicy(max_counts=7)).graph.version == GRAPH.version
    nodes = (replace(REPORT, run=COUNT.run), COUNT)
    assert replace(GRAPH, nodes=nodes, max_steps=7, tools=frozenset({"any"})).version == GRAPH.version
