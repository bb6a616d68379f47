"""The routers of `graph_editor`: every rule, at its place among the others."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.routing import (
    CallFacts,
    CheckFacts,
    DiagnosisFacts,
    EditOutcomeFacts,
    EscalationFacts,
    ParseFacts,
    PlanFacts,
    ReplyFacts,
    check_facts,
    make_routers,
)

ROUTERS = make_routers(GraphEditorPolicy())
FACTS: dict[str, Any] = {
    "parse_goal": ParseFacts("allowed", "allowed", False, "", True, "", 0, 0.9, "complex"),
    "plan_step": PlanFacts(False, ""),
    "route_tool": CheckFacts(False, False, "", False, False, 10),
    "call_tool": CallFacts("ok", ""),
    "evaluate": EditOutcomeFacts(0, True, False, 0, 1, ""),
    "diagnose": DiagnosisFacts(1, 1, "", "input", "invalid_arguments", True),
    "escalate": EscalationFacts("ambiguity", 0),
    "ask_person": ReplyFacts(False, False, "failure", False),
}
STOP = "stop_reason"
# By the router, in table order: the facts under which a rule fires though every later rule would hold as well where it
# can, and what follows.
FIRES: list[tuple[str, dict[str, Any], str, str, dict[str, Any]]] = [
    ("parse_goal", {"screening": "unscreened", "failed": True}, "guard_unavailable", "__end__",
     {STOP: "guard_unavailable", "status": "failed"}),
    ("parse_goal", {"screening": "blocked", "failed": True}, "blocked", "answer", {STOP: "blocked"}),
    ("parse_goal", {"screening": ""}, "blocked", "answer", {STOP: "blocked"}),
    ("parse_goal", {"screening": "no_words", "failed": True}, "parse_failed", "diagnose", {}),
    ("parse_goal", {"failed": True, "in_scope": False}, "parse_failed", "diagnose", {}),
    ("parse_goal", {"in_scope": False, "budget_spent": "tokens"}, "out_of_scope", "escalate", {}),
    ("parse_goal", {"budget_spent": "tokens", "contradictions": 1}, "budget_exhausted", "answer",
     {STOP: "budget_exhausted"}),
    ("parse_goal", {"contradictions": 1, "confidence": 0.1}, "contradiction", "escalate", {}),
    ("parse_goal", {"confidence": 0.49, "complexity": "simple"}, "ambiguous", "escalate", {}),
    ("parse_goal", {"confidence": 0.5, "complexity": "simple"}, "simple", "route_tool", {}),
    ("parse_goal", {}, "complex", "plan_step", {}),
    ("plan_step", {"failed": True}, "plan_failed", "diagnose", {}),
    ("plan_step", {}, "planned", "route_tool", {}),
    ("route_tool", {"failed": True, "unknown_tool": True, "preview": True}, "unknown_tool", "diagnose",
     {}),
    ("route_tool", {"failed": True, "preview": True}, "invalid_arguments", "diagnose", {}),
    ("route_tool", {"preview": True, "approval_missing": True}, "previewed", "answer", {}),
    ("route_tool", {"approval_missing": True}, "needs_approval", "escalate", {}),
    ("route_tool", {"unapproved_changes": 11}, "needs_approval", "escalate", {}),
    ("route_tool", {}, "valid", "call_tool", {}),
    ("call_tool", {"outcome": "unknown"}, "outcome_unknown", "answer", {STOP: "outcome_unknown"}),
    ("call_tool", {"outcome": "not_applied"}, "failed", "diagnose", {}),
    ("call_tool", {}, "ok", "evaluate", {}),
    ("evaluate", {"failures": 3, "met": False}, "retries_exhausted", "escalate", {STOP: "retries_exhausted"}),
    ("evaluate", {"failures": 2, "met": False, "goal_reached": True}, "retry", "diagnose", {}),
    ("evaluate", {"goal_reached": True, "operation_count": 25, "budget_spent": "tokens"}, "goal_complete", "answer",
     {}),
    ("evaluate", {"operation_count": 25, "budget_spent": "tokens"}, "step_limit", "escalate", {STOP: "step_limit"}),
    ("evaluate", {"operation_count": 24, "budget_spent": "tokens", "operations_left": 1}, "budget_exhausted", "answer",
     {STOP: "budget_exhausted"}),
    ("evaluate", {"operations_left": 1, "goal_reached": True}, "next_operation", "call_tool", {}),
    ("evaluate", {}, "next_step", "plan_step", {}),
    ("diagnose", {"failures": 3, "operation_count": 25}, "retries_exhausted", "escalate", {STOP: "retries_exhausted"}),
    ("diagnose", {"operation_count": 25, "budget_spent": "tokens"}, "step_limit", "escalate", {STOP: "step_limit"}),
    ("diagnose", {"budget_spent": "tokens", "diagnosis": "random"}, "budget_exhausted", "answer",
     {STOP: "budget_exhausted"}),
    ("diagnose", {"diagnosis": "random", "goal_known": False}, "retry_same", "call_tool", {}),
    ("diagnose", {"diagnosis": "identical", "goal_known": False}, "identical", "escalate", {}),
    ("diagnose", {"diagnosis": "systematic", "goal_known": False}, "systematic", "escalate", {}),
    ("diagnose", {"goal_known": False}, "reparse", "parse_goal", {}),
    ("diagnose", {}, "retry", "plan_step", {}),
    ("escalate", {"about": "", "questions_asked": 4}, "informed", "answer", {}),
    ("escalate", {"questions_asked": 4}, "question_limit", "answer", {STOP: "question_limit"}),
    ("escalate", {"about": "approval", "questions_asked": 4}, "ask", "ask_person", {}),
    ("escalate", {"questions_asked": 3}, "ask", "ask_person", {}),
    ("ask_person", {"expired": True, "declined": True, "others_left": True}, "escalated", "ask_person", {}),
    ("ask_person", {"expired": True, "declined": True}, "defaulted", "answer", {STOP: ""}),
    ("ask_person", {"expired": True}, "expired", "answer", {STOP: "expired"}),
    ("ask_person", {"declined": True, "about": "approval"}, "declined", "answer", {STOP: ""}),
    ("ask_person", {"about": "approval"}, "approved", "call_tool", {}),
    ("ask_person", {"about": "ambiguity"}, "answered", "parse_goal", {}),
    ("ask_person", {"about": "contradiction"}, "answered", "parse_goal", {}),
    ("ask_person", {}, "another_way", "plan_step", {"failures": 0, STOP: ""}),
]  # fmt: skip


@pytest.mark.parametrize(("node", "facts", "rule", "to", "update"), FIRES)
def test_a_rule_fires(node: str, facts: dict[str, Any], rule: str, to: str, update: dict[str, Any]) -> None:
    known = FACTS[node]
    decision = ROUTERS[node].decide_on(type(known)(**{**asdict(known), **facts}))
    assert (decision.rule, decision.destination, decision.update) == (rule, to, update)


def test_the_tables_are_those_of_the_contract_in_their_order() -> None:
    seen: dict[str, list[str]] = {}
    for node, _, rule, _, _ in FIRES:
        if rule not in seen.setdefault(node, []):
            seen[node].append(rule)
    assert {node: [rule.name for rule in router.rules] for node, router in ROUTERS.items()} == seen
    assert {router.name for router in ROUTERS.values()} == {f"graph_editor.route_after_{node}" for node in seen}


@pytest.mark.parametrize(
    ("tool", "arguments", "missing"),
    [
        ("delete_node", {"label": "Ticket", "key": "T"}, True),
        ("delete_edge", {}, True),
        ("cypher_query", {"query": "MATCH (n) SET n.a = 1", "write": True}, True),
        ("cypher_query", {"query": "MATCH (n) RETURN n"}, False),
        ("update_props", {}, False),
    ],
)
def test_what_destroys_needs_the_approval_of_this_very_plan(
    tool: str, arguments: dict[str, Any], missing: bool
) -> None:
    operations = [{"operation_id": "1", "tool": tool, "arguments": arguments}]
    state = {"plan": {"operations": operations, "plan_hash": "this", "goal_reached": True}, "approved": ["another"]}
    assert check_facts(state).approval_missing is missing
    assert not check_facts({**state, "approved": ["another", "this"]}).approval_missing
