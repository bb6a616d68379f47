"""The routers of `incident_investigation`: every rule at its place among the others, and the edges of its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from services.runtime.agents.incident_investigation.policy import IncidentPolicy
from services.runtime.agents.incident_investigation.routing import (
    InvestigatorFacts,
    ValidationFacts,
    agent_facts,
    make_routers,
)
from services.runtime.agents.screening import ScreenFacts

SCREEN, AGENT, VALIDATION = make_routers(IncidentPolicy())
SPOKE = InvestigatorFacts(
    model_failed=False,
    iteration_count=1,
    turn_count=1,
    budget_spent="",
    tool_count=0,
    no_cause_found=False,
    confidence=0.9,
    validated=False,
    phase="initial",
)
JUDGED = ValidationFacts(
    confirmed=False, iteration_count=1, turn_count=1, budget_spent="", tool_count=0, phase="validation"
)
END = "__end__"
REVIEW = {"status": "needs_review", "investigation_status": "completed"}
FAILED = {"status": "failed", "investigation_status": "failed"}
DONE = {"status": "completed", "investigation_status": "completed"}
# What an incident may be that every rule behind the one in question would take as well, where it can.
ALL_ELSE = {"iteration_count": 6, "budget_spent": "tokens", "tool_count": 2, "no_cause_found": True, "confidence": 0.1}


def without(*names: str) -> dict[str, Any]:
    """All of ALL_ELSE but these."""
    return {name: value for name, value in ALL_ELSE.items() if name not in names}


@pytest.mark.parametrize(
    ("facts", "rule", "destination", "update"),
    [
        ({"model_failed": True, **ALL_ELSE}, "model_failed", END, {**FAILED, "stop_reason": "model_failed"}),
        (ALL_ELSE, "iteration_limit", END, {**REVIEW, "stop_reason": "iteration_limit"}),
        (without("iteration_count"), "budget_exhausted", END, {**REVIEW, "stop_reason": "budget_exhausted"}),
        (without("iteration_count", "budget_spent"), "tool_calls", "tools", {}),
        ({"no_cause_found": True, "confidence": 0.1}, "no_cause_found", END,
         {**REVIEW, "stop_reason": "no_cause_found"}),
        ({"confidence": 0.1}, "low_confidence", "validation", {}),
        ({}, "unvalidated", "validation", {}),
        ({"iteration_count": 6}, "unvalidated", "validation", {}),
        ({"iteration_count": 6, "no_cause_found": True}, "iteration_limit", END,
         {**REVIEW, "stop_reason": "iteration_limit"}),
        ({"confidence": 0.1, "validated": True}, "complete", END, DONE),
    ],
)  # fmt: skip
def test_after_agent(facts: dict[str, Any], rule: str, destination: str, update: dict[str, Any]) -> None:
    verdict = AGENT.decide_on(replace(SPOKE, **facts))
    assert (verdict.rule, verdict.destination, verdict.update) == (rule, destination, update)


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ({"iteration_count": 5, "tool_count": 1}, "tool_calls"),
        ({"iteration_count": 6, "tool_count": 1}, "iteration_limit"),
        ({"turn_count": 25, "tool_count": 1}, "tool_calls"),
        ({"turn_count": 26, "tool_count": 1}, "iteration_limit"),
        ({"iteration_count": 6, "validated": True}, "iteration_limit"),
        ({"iteration_count": 5}, "unvalidated"),
        ({"confidence": 0.7}, "unvalidated"),
        ({"confidence": 0.6999999999999998}, "low_confidence"),
        ({"confidence": 0.5}, "low_confidence"),
        ({"confidence": 0.0, "no_cause_found": True}, "no_cause_found"),
    ],
)
def test_the_edges_of_five_iterations_and_of_seven_tenths(facts: dict[str, Any], rule: str) -> None:
    assert AGENT.decide_on(replace(SPOKE, **facts)).rule == rule


@pytest.mark.parametrize(
    ("facts", "rule", "destination", "update"),
    [
        ({"confirmed": True, "iteration_count": 6}, "confirmed", END, DONE),
        ({"iteration_count": 6}, "iteration_limit", END, {**REVIEW, "stop_reason": "iteration_limit"}),
        (
            {"iteration_count": 6, "budget_spent": "tokens"},
            "iteration_limit",
            END,
            {**REVIEW, "stop_reason": "iteration_limit"},
        ),
        ({"turn_count": 26}, "iteration_limit", END, {**REVIEW, "stop_reason": "iteration_limit"}),
        ({"budget_spent": "tokens"}, "budget_exhausted", END, {**REVIEW, "stop_reason": "budget_exhausted"}),
        ({"iteration_count": 5}, "refuted", "agent", {}),
    ],
)
def test_after_validation(facts: dict[str, Any], rule: str, destination: str, update: dict[str, Any]) -> None:
    verdict = VALIDATION.decide_on(replace(JUDGED, **facts))
    assert (verdict.rule, verdict.destination, verdict.update) == (rule, destination, update)


@pytest.mark.parametrize(
    ("screening", "rule", "destination", "update"),
    [
        ("unscreened", "guard_unavailable", END, {**FAILED, "stop_reason": "guard_unavailable"}),
        ("blocked", "blocked", END, {**DONE, "stop_reason": "blocked"}),
        ("", "blocked", END, {**DONE, "stop_reason": "blocked"}),
        ("allowed", "allowed", "agent", {}),
    ],
)
def test_after_screen_incident(screening: str, rule: str, destination: str, update: dict[str, Any]) -> None:
    verdict = SCREEN.decide_on(ScreenFacts(screening, "r"))
    assert (verdict.rule, verdict.destination, verdict.update) == (rule, destination, update)


def test_no_tool_calls_is_not_complete_without_an_answer() -> None:
    # Nothing in state says that there is an answer: it is not one of confidence 0.7.
    assert AGENT.decide({}).rule == "low_confidence"


def test_calls_count_until_they_are_answered() -> None:
    call = {"name": "query_graph", "args": {}, "id": "c"}
    asked = AIMessage("", tool_calls=[call, {**call, "id": "d"}])
    assert agent_facts({"messages": [HumanMessage("x"), asked]}).tool_count == 2
    assert agent_facts({"messages": [asked, ToolMessage("r", tool_call_id="c")]}).tool_count == 0
