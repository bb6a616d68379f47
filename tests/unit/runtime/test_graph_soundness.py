"""Mistakes in a graph, found when it is built and said in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage
from signalbox_routing.table import END, Rule
from signalbox_routing.terms import Always

from services.runtime.errors import InvalidGraphError
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.inner import InnerGraph
from services.runtime.routing.state import REPLACED, append
from tests.fixtures.replica import Counting, CountingState

GRAPH = Counting().graph
COUNT, REPORT = GRAPH.nodes


class Listed(CountingState, total=False):
    """Forgets a reducer."""

    found: list[str]


class Optionally(CountingState, total=False):
    """Forgets it behind a None."""

    found: set[str] | None


class Overridden(CountingState, total=False):
    """Takes the reducer from a field that every agent has."""

    messages: list[AnyMessage]


class Meant(CountingState, total=False):
    """Says what it means."""

    found: Annotated[list[str], append]
    latest: Annotated[list[str], REPLACED]


def refused(graph: AgentGraph) -> str:
    with pytest.raises(InvalidGraphError) as error:
        graph.compile()
    return str(error.value)


@pytest.mark.parametrize("state", [Listed, Optionally])
def test_a_state_that_forgets_a_reducer(state: type) -> None:
    said = refused(replace(GRAPH, state=state))
    assert said.startswith(f"counting: {state.__name__}.found is a list or a set without a reducer")
    assert "Annotated[…, append]" in said


def test_a_state_that_takes_a_reducer_away() -> None:
    assert refused(replace(GRAPH, state=Overridden)).startswith("counting: Overridden.messages is not what every agent")


def test_a_state_that_says_what_it_means_is_built() -> None:
    replace(GRAPH, state=Meant).compile()


def test_a_node_that_forgets_its_status() -> None:
    said = refused(replace(GRAPH, nodes=(COUNT, replace(REPORT, concludes=False))))
    assert said.startswith("counting: after the node 'report' a run may end as it always leads to the end, and nothing")


def test_a_rule_that_ends_a_run_without_a_status() -> None:
    table: Any = COUNT.router
    ends = type(table)(table.name, facts=table.facts, policy=table.policy, rules=[Rule("enough", END, Always())])
    graph = replace(GRAPH, nodes=(replace(COUNT, router=ends), REPORT))
    assert "a run may end by the rule 'enough', and nothing sets its status" in refused(graph)
    says = [Rule("enough", END, Always(), lambda _: {"status": "completed"})]
    says_so = type(table)(table.name, facts=table.facts, policy=table.policy, rules=says)
    replace(GRAPH, nodes=(replace(COUNT, router=says_so), REPORT)).compile()


def test_a_way_that_leads_nowhere() -> None:
    lost = replace(GRAPH, nodes=(COUNT, RoutedNode("report", REPORT.run, then="repport", concludes=True)))
    assert refused(lost) == "counting: report leads to 'repport', and there are only count, report"
    assert "the entry leads to 'start'" in refused(replace(GRAPH, entry="start"))


def test_an_inner_graph_that_is_not_what_was_said_of_it() -> None:
    compiled = GRAPH.compile()
    InnerGraph.of(compiled).check(compiled)
    with pytest.raises(InvalidGraphError, match="the graph 'counting' has the nodes"):
        InnerGraph(frozenset({"model"}), CountingState).check(compiled)


@pytest.mark.parametrize("more", [{"acts": True}, {"cost": Cost(tool_calls=1)}])
def test_a_node_that_asks_and_does_more(more: dict[str, Any]) -> None:
    said = refused(replace(GRAPH, nodes=(replace(COUNT, **more), REPORT)))
    assert said.startswith("counting: the node 'count' asks a person, and so runs again from its start with the answer")
