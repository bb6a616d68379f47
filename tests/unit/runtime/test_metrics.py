"""What is counted is there before it happens: a rate needs the 0 before the first increase."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from services.evaluator.evaluator import Evaluator
from services.runtime.agents.registry import definitions
from services.runtime.metrics import count_from_zero


@pytest.fixture(scope="module", autouse=True)
def counted() -> None:
    count_from_zero((agent.outline, agent.outcomes) for agent in definitions().values())


@pytest.mark.parametrize(
    ("state", "outcome", "stop_reason"),
    [
        ("FAILED", "not_answered", "guard_unavailable"),
        ("FAILED", "not_answered", "node_failed"),
        ("FAILED", "unfinished", "claim_limit"),
        ("NEEDS_REVIEW", "not_answered", "iteration_limit"),
        ("FAILED", "not_answered", "error_limit"),
        ("SUCCEEDED", "blocked", "blocked"),
        ("CANCELLED", "cancelled", "cancelled"),
        ("SUCCEEDED", "answered", ""),
    ],
)
def test_every_way_to_end(state: str, outcome: str, stop_reason: str) -> None:
    labels = {"agent": "data_chat", "state": state, "stop_reason": stop_reason}
    assert REGISTRY.get_sample_value("signalbox_runs_ended_total", labels) is not None
    came_of_it = {"agent": "data_chat", "outcome": outcome}
    assert REGISTRY.get_sample_value("signalbox_run_outcomes_total", came_of_it) is not None


def test_every_rule() -> None:
    labels = {"agent": "data_chat", "router": "data_chat.route_after_screen", "rule": "guard_unavailable"}
    found = REGISTRY.get_sample_value("signalbox_routing_decisions_total", {**labels, "destination": "__end__"})
    assert found is not None


@pytest.mark.parametrize(
    ("kind", "outcome", "stage"),
    [
        ("comprehensive_evaluation", "final", "model"),
        ("comprehensive_evaluation", "not_final", "mechanical"),
        ("critique", "approved", "model"),
        ("critique", "needs_research", "mechanical"),
        ("critique", "needs_reanalysis", "model"),
    ],
)
def test_every_word_of_the_evaluator(kind: str, outcome: str, stage: str) -> None:
    assert Evaluator.__module__ == "services.evaluator.evaluator"  # which makes the series
    labels = {"kind": kind, "outcome": outcome, "stage": stage}
    assert REGISTRY.get_sample_value("signalbox_evaluator_evaluations_total", labels) is not None
    reason = {"reason": "flagged_not_cited"}
    assert REGISTRY.get_sample_value("signalbox_evaluator_evidence_problems_total", reason) is not None
