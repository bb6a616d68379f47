"""The check that recorded runs are walks of the model finds what is none."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from signalbox.v1 import policy_pb2, runs_pb2
from signalbox_routing.table import END

from services.runtime.agents.registry import agent_graphs
from services.runtime.routing.graph import NODE_FAILED, AgentGraph
from services.runtime.routing.model import Model
from services.runtime.routing.variables import NotAModel
from tests.fixtures.chance import ChanceRuns, chance_graph
from tests.fixtures.walks import Decided, beyond_cost, check_walk, left_at, model_of

TRIAGE = model_of("sast_triage")
FACTS: dict[str, Any] = {
    "iteration_count": 0, "duplicate_call": False, "error_attempts": 0, "budget_spent": "", "tool": "fetch_code",
    "tool_count": 1, "unanalysed_fragments": 0, "is_final": False,
}  # fmt: skip


def decided(rule: str, to: str, **facts: Any) -> Decided:
    """What the agent node decides."""
    return "agent", "sast_triage.route_agent_decision", rule, to, {**FACTS, **facts}


def judged(rule: str, to: str, **facts: Any) -> Decided:
    """What the evaluation decides."""
    return "comprehensive_evaluation", "sast_triage.route_after_evaluation", rule, to, {**FACTS, **facts}


FETCHES = decided("tool_call", "fetch_code")
ANALYSES = decided("tool_call", "analyze_issue", tool="analyze_issue", iteration_count=1, unanalysed_fragments=2)
SAYS_NOTHING = decided("no_tool_call", "agent", iteration_count=2, tool="")
FAILED: Decided = ("agent", "sast_triage.route_agent_decision", NODE_FAILED, END, {"error_reason": "ROUTER_FAILED"})
WALKS = [
    [],
    [FETCHES],
    [FETCHES, ANALYSES, judged("is_final", END, iteration_count=2, is_final=True)],
    [FETCHES, ANALYSES, judged("continue", "agent", iteration_count=2), SAYS_NOTHING],
    [decided("unknown_tool", "agent", tool="rm"), decided("no_tool_call", "agent", tool="", error_attempts=1)],
    [FETCHES, FAILED],
]  # fmt: skip


@pytest.mark.parametrize("decisions", WALKS, ids=range(len(WALKS)))
def test_a_walk_of_the_model(decisions: list[Decided]) -> None:
    assert left_at(TRIAGE, decisions) == 0


@pytest.mark.parametrize(
    ("decisions", "place"),
    [
        ([ANALYSES], 1),
        # A call that is not counted, an error that is not forgiven, a final word before anything was analysed.
        ([FETCHES, FETCHES], 2),
        ([decided("unknown_tool", "agent", tool="rm"), decided("no_tool_call", "agent", tool="", error_attempts=2)], 2),
        ([judged("is_final", END, is_final=True)], 1),
        ([FETCHES, judged("is_final", END, is_final=True, iteration_count=1)], 2),
        # The rule is not the one that these facts lead to, or leads elsewhere.
        ([decided("max_iterations", "analyze_issue")], 1),
        ([decided("tool_call", "analyze_issue")], 1),
        ([FAILED, FETCHES], 1),
        ([FETCHES, ANALYSES, judged("is_final", END, iteration_count=2, is_final=True), FETCHES], 4),
    ],
)
def test_what_is_none_is_found_where_it_leaves_the_model(decisions: list[Decided], place: int) -> None:
    assert left_at(TRIAGE, decisions) == place


def call(kind: str, outcome: str = "ok") -> runs_pb2.NodeCall:
    return runs_pb2.NodeCall(kind=kind, name="it", outcome=outcome)


MODEL, TOOL, WAIT, UNANSWERED = call("model"), call("tool"), call("wait"), call("model", "http_503")
OVER_COST: list[tuple[list[tuple[str, list[runs_pb2.NodeCall]]], str]] = [
    ([("agent", [TOOL, MODEL]), ("fetch_code", [TOOL]), ("agent", [MODEL])], ""),
    ([("agent", [MODEL]), ("agent", [TOOL, MODEL])], "agent made 1 tool calls, and declares 0"),
    ([("agent", [TOOL, TOOL, MODEL])], "agent made 2 tool calls, and declares 1"),
    ([("agent", [MODEL] * 3)], "agent made 3 model calls, and declares 2"),
    ([("fetch_code", [TOOL, call("tool", "path_not_found")])], "fetch_code made 2 tool calls, and declares 1"),
    ([("comprehensive_evaluation", [MODEL] * 2)], ""),
    ([("comprehensive_evaluation", [MODEL] * 3)], "comprehensive_evaluation made 3 model calls, and declares 2"),
    # Retries of what failed, in one attempt or after a wait.
    ([("agent", [TOOL, UNANSWERED, UNANSWERED, MODEL])], ""),
    ([("agent", [MODEL, WAIT, TOOL, MODEL])], ""),
    ([("agent", [WAIT, *[MODEL] * 3])], "agent made 3 model calls, and declares 2"),
]


def test_only_the_first_visit_of_a_question_looks_for_examples() -> None:
    ends = [runs_pb2.Decision(node="agent", calls=calls) for calls in ([TOOL, MODEL], [MODEL], [TOOL, MODEL])]
    graph = model_of("data_chat").graph
    assert beyond_cost(graph, ends[:2]) == []
    assert beyond_cost(graph, ends) == ["agent made 1 tool calls, and declares 0"]


@pytest.mark.parametrize(("visits", "beyond"), OVER_COST, ids=range(len(OVER_COST)))
def test_calls_that_no_cost_declares_are_found(visits: list[tuple[str, list[runs_pb2.NodeCall]]], beyond: str) -> None:
    ends = [runs_pb2.Decision(node=node, calls=calls) for node, calls in visits]
    assert beyond_cost(TRIAGE.graph, ends) == ([beyond] if beyond else [])


def test_a_run_that_makes_more_calls_than_it_declares_fails_the_check() -> None:
    node, router, rule, destination, facts = FETCHES
    decision = runs_pb2.Decision(node=node, router=router, rule=rule, destination=destination, calls=[TOOL, MODEL])
    json_format.ParseDict(dict(facts), decision.facts)
    as_declared, beyond = (runs_pb2.NodeCompleted(node="fetch_code", calls=[TOOL] * made) for made in (1, 2))
    check_walk("sast_triage", [decision], policy_pb2.Policy(), [as_declared])
    with pytest.raises(AssertionError, match="fetch_code made 2 tool calls"):
        check_walk("sast_triage", [decision], policy_pb2.Policy(), [beyond])


@pytest.mark.parametrize("graph", agent_graphs(), ids=lambda graph: graph.name)
def test_whatever_nodes_do_as_they_declare_is_a_walk_of_the_model(graph: AgentGraph) -> None:
    chance, model = ChanceRuns(graph, seed=11), Model(graph)
    runs = [chance.decisions() for _ in range(150)]
    assert {left_at(model, run) for run in runs} == {0}
    # They come far, or little would be shown.
    assert max(map(len, runs)) > 4
    fired = {(router, rule) for run in runs for _, router, rule, *_ in run}
    reachable = sum(not rule.unreachable_because for router in graph.routers for rule in router.rules)
    assert len(fired) > 0.6 * reachable


def test_so_it_is_for_graphs_that_nobody_thought_of() -> None:
    shown = 0
    for seed in range(120):
        graph = chance_graph(seed)
        try:
            model = Model(graph)
        except NotAModel:
            continue
        runs = ChanceRuns(graph, seed)
        for decisions in (runs.decisions(most=12) for _ in range(25)):
            assert left_at(model, decisions) == 0, f"seed {seed}: {decisions}"
            shown += len(decisions) > 3
    assert shown > 500
