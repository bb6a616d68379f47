"""Limits in shadow: what was decided is decided once more under them, and counted; nothing else comes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox_routing.facts import as_dict
from signalbox_routing.table import Router

from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.routing import ChatFacts
from services.runtime.agents.policies import InvalidPoliciesError
from services.runtime.agents.registry import agent_graphs, built_in_limits, limits_in_shadow
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.recorder import DecisionRecord
from services.runtime.routing.shadow import SHADOW_DECISIONS, Shadow

ROUTER = "data_chat.route_after_agent"
[TABLE] = [router for graph in agent_graphs() for router in graph.routers if router.name == ROUTER]
ASKED_ONCE = ChatFacts(
    already_answered=False, iteration_count=1, budget_spent="", tool_count=1, have_result=False, query_executed=False,
    have_text=False, error_attempts=0,
)  # fmt: skip


def decided(on: ChatFacts, /, **changes: Any) -> DecisionRecord:
    """A decision as a step has it."""
    decision = TABLE.decide_on(on)
    record: dict[str, Any] = {
        "decision_id": "d", "router": ROUTER, "rule": decision.rule, "destination": decision.destination,
        "rejected_rules": [], "grounds": decision.grounds, "facts": as_dict(on), "policy_version": "",
        "trace_id": "", "span_id": "", **changes,
    }  # fmt: skip
    return DecisionRecord(**record)  # type: ignore[typeddict-item, no-any-return]


def counted(shadow: Shadow, *decisions: DecisionRecord) -> Mapping[str, float]:
    """Has decisions counted; returns by how much each count rose."""

    def now() -> dict[str, float]:
        # Asked of the metric: the registry would look through all others, for each of hundreds of examples.
        samples = [sample for metric in SHADOW_DECISIONS.collect() for sample in metric.samples]
        return {
            sample.labels["outcome"]: sample.value
            for sample in samples
            if sample.name == "signalbox_shadow_decisions_total" and sample.labels["router"] == ROUTER
        }

    before = now()
    shadow.count("data_chat", decisions)
    rose = {outcome: count - before.get(outcome, 0.0) for outcome, count in now().items()}
    return {outcome: count for outcome, count in rose.items() if count}


def shadowed(document: Mapping[str, Any]) -> Shadow:
    """What an operator's setting makes."""
    return Shadow(agent_graphs(), limits_in_shadow(document, built_in_limits()))


def test_a_decision_that_would_lead_elsewhere_is_told_from_one_that_would_not() -> None:
    shadow = shadowed({"data_chat": {"max_iterations": 1}})
    assert counted(shadow, decided(ASKED_ONCE)) == {"other": 1}
    assert counted(shadowed({"data_chat": {"max_iterations": 2}}), decided(ASKED_ONCE)) == {"same": 1}


def test_agents_without_limits_in_shadow_are_not_looked_at() -> None:
    assert counted(shadowed({}), decided(ASKED_ONCE)) == {}
    assert counted(shadowed({"sast_triage": {"max_iterations": 1}}), decided(ASKED_ONCE)) == {}


def test_what_failed_was_no_decision_and_what_cannot_be_read_is_skipped() -> None:
    shadow = shadowed({"data_chat": {"max_iterations": 1}})
    assert counted(shadow, decided(ASKED_ONCE, rule=NODE_FAILED)) == {}
    assert counted(shadow, decided(ASKED_ONCE, router="data_chat.of_another_release")) == {}
    assert counted(shadow, decided(ASKED_ONCE, facts={"iteration_count": "many"})) == {"skipped": 1}


def test_a_table_that_raises_under_them_harms_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise ArithmeticError

    shadow = shadowed({"data_chat": {"max_iterations": 1}})
    decision = decided(ASKED_ONCE)
    monkeypatch.setattr(Router, "destination_of", raises)
    assert counted(shadow, decision) == {"skipped": 1}


@given(facts=st.builds(ChatFacts), limit=st.integers(1, 100))
def test_it_is_what_the_table_says_under_those_limits(facts: ChatFacts, limit: int) -> None:
    _, destination = TABLE.destination_of(facts, DataChatPolicy(max_iterations=limit))
    outcome = "same" if destination == TABLE.decide_on(facts).destination else "other"
    assert counted(shadowed({"data_chat": {"max_iterations": limit}}), decided(facts)) == {outcome: 1}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"data_caht": {}}, "data_caht: there is no such agent"),
        ({"data_chat": {"max_iteration": 1}}, "data_chat.max_iteration: there is no such limit"),
        ({"data_chat": {"max_iterations": 0}}, "data_chat.max_iterations is 0"),
        ({"data_chat": {"budget": {"tokens": 1}}}, "data_chat.budget: budgets can't be tried"),
        ({"data_chat": []}, "data_chat: limits are given by name"),
    ],
    ids=json.dumps,
)
def test_limits_that_there_are_not_stop_the_start(document: Mapping[str, Any], words: str) -> None:
    with pytest.raises(InvalidPoliciesError) as refused:
        shadowed(document)
    assert refused.value.problems[0].startswith(f"SIGNALBOX_SHADOW_POLICIES: {words}")
