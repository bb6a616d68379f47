"""Every rule of `sast_triage`'s routers, from the state that makes it hold."""

from typing import Any

import pytest
from signalbox_routing.table import END, Router

from services.runtime.agents.code_review.code_tools import canonical
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.routing import make_routers, repeats
from services.runtime.agents.sast_triage.state import count_errors
from services.runtime.routing.state import NOTHING_SPENT

DECISION, EVALUATION = make_routers(SastTriagePolicy())
JUDGE = "comprehensive_evaluation"
SPENT: dict[str, Any] = {
    "spend": {**NOTHING_SPENT, "tool_calls": 9},
    "budget": {"model_calls": 0, "tool_calls": 9, "tokens": 0, "wall_time_s": 0.0},
}
ARGUMENTS: dict[str, Any] = {"path": "app.py", "first_line": 3}


def asks(tool: str, arguments: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    """State after the agent node."""
    requested = {"tool": tool, "arguments": arguments or {}, "tool_call_id": "call-0-0"}
    return {"requested": requested, "iteration_count": 1, **state}


REPEATS: dict[str, Any] = asks("fetch_code", ARGUMENTS, duplicate_call=True)
LAST_CALL = canonical("fetch_code", {"first_line": 3, "path": "app.py"})

READ: dict[str, Any] = {"code_bank": [{"file": "app.py"}, {"file": "web.py"}]}
ANALYSED: dict[str, Any] = {"analysis": {"investigation_result": None, "problem": "", "code_seen": 2}}
ANALYSIS = "analyze_issue"

CASES: list[tuple[Router[Any, Any], dict[str, Any], str, str]] = [
    (DECISION, {**REPEATS, "iteration_count": 15, "error_attempts": 3}, "max_iterations", ANALYSIS),
    (DECISION, asks("rm_rf", iteration_count=15, **READ, **ANALYSED), "max_iterations", ANALYSIS),
    (DECISION, {**REPEATS, "error_attempts": 3}, "duplicate_call", JUDGE),
    (DECISION, {**REPEATS, **READ}, "duplicate_call", ANALYSIS),
    (DECISION, {**REPEATS, **READ, **ANALYSED}, "duplicate_call", JUDGE),
    (DECISION, {**REPEATS, **ANALYSED, "code_bank": [*READ["code_bank"], {}]}, "duplicate_call", ANALYSIS),
    (DECISION, asks("fetch_code", error_attempts=3, **SPENT), "error_recovery_limit", END),
    (DECISION, asks("fetch_code", **SPENT), "budget_exhausted", END),
    (DECISION, asks("fetch_code", ARGUMENTS), "tool_call", "fetch_code"),
    (DECISION, asks("analyze_issue"), "tool_call", "analyze_issue"),
    (DECISION, asks("rm_rf"), "unknown_tool", "agent"),
    (DECISION, asks(""), "no_tool_call", "agent"),
    (DECISION, {}, "no_tool_call", "agent"),
    (EVALUATION, {"iteration_count": 15, "is_final": True, "duplicate_call": True}, "max_iterations", END),
    (EVALUATION, {"duplicate_call": True, "error_attempts": 3, "is_final": True}, "duplicate_call", END),
    (EVALUATION, {"error_attempts": 3, "is_final": True}, "error_recovery_limit", END),
    (EVALUATION, {"is_final": True, **SPENT}, "is_final", END),
    (EVALUATION, {"is_final": False, **SPENT}, "budget_exhausted", END),
    (EVALUATION, {"is_final": False, "iteration_count": 14, "error_attempts": 2}, "continue", "agent"),
]


@pytest.mark.parametrize(("router", "state", "rule", "destination"), CASES)
def test_the_rule_that_holds(router: Router[Any, Any], state: dict[str, Any], rule: str, destination: str) -> None:
    decision = router.decide(state)
    assert (decision.rule, decision.destination) == (rule, destination)
    assert list(router.rules)[len(decision.rejected)].name == rule


def test_every_rule_has_a_case() -> None:
    tried = {(router.name, rule) for router, _, rule, _ in CASES}
    assert tried == {(router.name, rule.name) for router in (DECISION, EVALUATION) for rule in router.rules}


def test_the_order_is_the_contracts() -> None:
    assert [rule.name for rule in DECISION.rules] == [
        "max_iterations",
        "duplicate_call",
        "error_recovery_limit",
        "budget_exhausted",
        "tool_call",
        "unknown_tool",
        "no_tool_call",
    ]
    spoken = [rule.name for rule in EVALUATION.rules if rule.name != "budget_exhausted"]
    assert spoken == ["max_iterations", "duplicate_call", "error_recovery_limit", "is_final", "continue"]


@pytest.mark.parametrize(("router", "state", "rule", "destination"), [case for case in CASES if case[3] == END])
def test_breakers_end_the_run_and_say_so(
    router: Router[Any, Any], state: dict[str, Any], rule: str, destination: str
) -> None:
    update = router.decide(state).update
    assert destination == END
    assert update.get("stop_reason", "is_final") == rule
    assert update.get("is_final", True)


@pytest.mark.parametrize("tool", ["rm_rf", ""])
def test_what_leads_nowhere_counts_as_an_error_attempt(tool: str) -> None:
    assert DECISION.decide(asks(tool)).update == {"error_attempts": 1}


@pytest.mark.parametrize(
    ("last", "arguments"),
    [
        ("fetch_code", {"path": "app.py"}),
        ("fetch_code", {"path": "app.py", "first_line": 4}),
        ("analyze_issue", ARGUMENTS),
    ],
)
def test_another_tool_or_other_arguments_are_no_repetition(last: str, arguments: dict[str, Any]) -> None:
    assert not repeats(asks("fetch_code", ARGUMENTS)["requested"], canonical(last, arguments))


def test_the_source_is_no_part_of_a_call() -> None:
    named = canonical("fetch_code", {**ARGUMENTS, "source": {"repository": "/etc", "commit": "0"}})
    assert repeats(asks("fetch_code", ARGUMENTS)["requested"], named)


def test_the_same_call_again_is_a_repetition_in_whatever_order_its_arguments_are() -> None:
    assert repeats(asks("fetch_code", ARGUMENTS)["requested"], LAST_CALL)


def test_a_tool_that_there_is_not_is_not_asked_for_again() -> None:
    assert not repeats(asks("rm_rf", ARGUMENTS)["requested"], canonical("rm_rf", ARGUMENTS))


def test_an_evaluation_between_two_calls_makes_the_second_no_repetition() -> None:
    assert not repeats(asks("fetch_code", ARGUMENTS)["requested"], "")


def test_errors_are_counted_in_a_row() -> None:
    assert count_errors(None, 1) == 1
    assert count_errors(1, 1) == 2
    assert count_errors(2, 0) == 0
