"""What the page of an agent says of its tables: the words of the library, and what each edge is decided by."""

from __future__ import annotations

from typing import TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from signalbox.v1 import agents_pb2, policy_pb2
from signalbox_routing.words import in_words

from services.console.tables_of_agent import decided_nodes, read_limits
from services.runtime.agents.registry import definitions
from services.runtime.api.outline_wire import outline_proto
from services.runtime.hosted.definition import HostedDefinition
from tests.fixtures.hosted import loaded
from tests.integration.runtime.test_tables_in_code import writer

MOST_ROUNDS = 3


class State(TypedDict):
    """State of the graph below."""

    rounds: int


def by_rounds(state: State) -> str:
    """A path function that is lifted."""
    return END if state["rounds"] >= MOST_ROUNDS else "loop"


def by_loop(state: State) -> str:
    """One that is not."""
    while state["rounds"]:
        return END
    return END


@pytest.mark.parametrize("name", definitions())
def test_rules_are_said_as_the_library_says_them(name: str) -> None:
    definition = definitions()[name]
    policy = definition.policy()
    shown = {each.node: each for each in decided_nodes(outline_proto(definition.outline, policy))}
    for node, router in definition.outline.tables:
        said = [in_words(rule.when, policy) for rule in router.rules]
        assert [each.condition for each in shown[node].rules] == said
        assert shown[node].kind == "by a table"


def test_an_edge_is_told_by_what_decides_it() -> None:
    graph = StateGraph(State)
    graph.add_node("loop", lambda _: {})
    graph.add_node("last", lambda _: {})
    graph.add_edge(START, "loop")
    graph.add_conditional_edges("loop", by_rounds, ["loop", END])
    graph.add_conditional_edges("last", by_loop, [END])
    lifted, given = HostedDefinition(loaded("lifted", graph)), HostedDefinition(loaded("writer", writer()))
    shown = decided_nodes(outline_proto(lifted.outline, lifted.policy()))
    assert [(each.node, each.kind) for each in shown] == [("loop", "by code, lifted to a table"), ("last", "by code")]
    assert shown[0].rules[0].condition == "rounds >= most_rounds (3)"
    [limit] = read_limits(outline_proto(lifted.outline, lifted.policy()), agents_pb2.Agent())
    assert (limit.name, limit.origin) == ("most_rounds", None)

    outline = outline_proto(given.outline, given.policy())
    file = policy_pb2.LIMIT_ORIGIN_FILE
    agent = agents_pb2.Agent(policy=policy_pb2.Policy(limits=[policy_pb2.Limit(name="max_rounds", origin=file)]))
    assert [(each.name, each.origin) for each in read_limits(outline, agent)] == [("max_rounds", file)]
