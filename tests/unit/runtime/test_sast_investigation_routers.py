"""Every rule of `sast_investigation`'s routers, from the state that makes it hold."""

from typing import Any

import pytest
from signalbox_routing.table import END, Router

from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.routing import make_routers
from services.runtime.routing.state import NOTHING_SPENT

EVALUATION, INCREMENT = make_routers(SastInvestigationPolicy())
BREAKER = "circuit_breaker"
SPENT: dict[str, Any] = {
    "spend": {**NOTHING_SPENT, "output_tokens": 7},
    "budget": {"model_calls": 0, "tool_calls": 0, "tokens": 7, "wall_time_s": 0.0},
}


def judged(outcome: str, **state: Any) -> dict[str, Any]:
    """State after the evaluation."""
    return {"critique": {"outcome": outcome, "missing": [], "reason": "so"}, **state}


EVERYTHING = {"rejection_streak": 3, "no_progress_streak": 2, "iteration_count": 4, **SPENT}
CASES: list[tuple[Router[Any, Any], dict[str, Any], str, str]] = [
    (EVALUATION, judged("approved", **EVERYTHING), "approved", END),
    (EVALUATION, judged("needs_reanalysis", **EVERYTHING), "rejection_streak", BREAKER),
    (EVALUATION, judged("needs_research", **EVERYTHING), "rejection_streak", BREAKER),
    (EVALUATION, judged("needs_research", **{**EVERYTHING, "rejection_streak": 2}), "no_progress", BREAKER),
    (EVALUATION, judged("needs_research", iteration_count=4, **SPENT), "iteration_limit", BREAKER),
    (EVALUATION, judged("needs_research", iteration_count=3, **SPENT), "budget_exhausted", BREAKER),
    (EVALUATION, judged("needs_reanalysis", rejection_streak=2, no_progress_streak=1), "needs_reanalysis", "increment"),
    (EVALUATION, judged("something new"), "needs_reanalysis", "increment"),
    (EVALUATION, {}, "needs_reanalysis", "increment"),
    (EVALUATION, judged("needs_research", iteration_count=3), "needs_research", "increment"),
    (INCREMENT, judged("needs_reanalysis"), "reanalyze", "analysis"),
    (INCREMENT, {}, "reanalyze", "analysis"),
    (INCREMENT, judged("needs_research"), "research_more", "research"),
]


@pytest.mark.parametrize(("router", "state", "rule", "destination"), CASES)
def test_the_rule_that_holds(router: Router[Any, Any], state: dict[str, Any], rule: str, destination: str) -> None:
    decision = router.decide(state)
    assert (decision.rule, decision.destination) == (rule, destination)
    assert list(router.rules)[len(decision.rejected)].name == rule


def test_every_rule_has_a_case() -> None:
    tried = {(router.name, rule) for router, _, rule, _ in CASES}
    assert tried == {(router.name, rule.name) for router in (EVALUATION, INCREMENT) for rule in router.rules}


def test_the_order_is_the_contracts() -> None:
    assert [rule.name for rule in EVALUATION.rules] == [
        "approved",
        "rejection_streak",
        "no_progress",
        "iteration_limit",
        "budget_exhausted",
        "needs_reanalysis",
        "needs_research",
    ]
    assert [rule.name for rule in INCREMENT.rules] == ["reanalyze", "research_more"]


@pytest.mark.parametrize(("router", "state", "rule", "destination"), [case for case in CASES if case[3] == BREAKER])
def test_breakers_leave_the_finding_to_a_person(
    router: Router[Any, Any], state: dict[str, Any], rule: str, destination: str
) -> None:
    assert destination == BREAKER
    assert router.decide(state).update == {"stop_reason": rule, "status": "needs_review"}


def test_a_decision_says_which_limit_it_met() -> None:
    decision = EVALUATION.decide(judged("needs_research", no_progress_streak=2))
    assert decision.grounds == {"no_progress_streak": 2, "max_no_progress_streak": 2}
