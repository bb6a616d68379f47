"""For how long an approval holds, from state alone: also from what the last release wrote."""

from __future__ import annotations

from typing import Any

import pytest

from services.runtime.agents.graph_editor.planning import carried_out_last, plan_hash
from services.runtime.agents.graph_editor.routing import check_facts
from services.runtime.agents.graph_editor.state import Operation, PerformedOperation, Plan

WRITE: dict[str, Any] = {"query": "MATCH (t:Ticket) SET t.points = t.points + 1", "write": True}
LAST_RELEASES = "0123456789abcdef" * 2


def operations(*ids: str) -> list[Operation]:
    """Operations that write alike."""
    return [Operation(operation_id=each, tool="cypher_query", arguments=WRITE) for each in ids]


def step(operation_id: str) -> PerformedOperation:
    """An operation that was carried out."""
    return PerformedOperation(
        operation_id=operation_id,
        tool="cypher_query",
        arguments=WRITE,
        result="applied",
        text="",
        change={},
        differs=[],
    )


def state(*ids: str, digest: str, approved: list[str], done: list[str]) -> dict[str, Any]:
    """A run that has this plan."""
    plan = Plan(operations=operations(*ids), plan_hash=digest, goal_reached=True)
    return {"plan": plan, "approved": approved, "done": [step(each) for each in done]}


def test_a_plan_is_another_once_one_like_it_was_carried_out() -> None:
    first = plan_hash(operations("a"), "")
    assert plan_hash(operations("b"), "") == first
    assert plan_hash(operations("b"), "a") != first
    assert plan_hash(operations("c"), "b") not in (first, plan_hash(operations("b"), "a"))


@pytest.mark.parametrize("result", ["applied", "unchanged"])
def test_what_came_back_was_carried_out_whatever_came_of_it(result: str) -> None:
    assert carried_out_last({}) == ""
    assert carried_out_last({"last_step": {**step("a"), "result": result}}) == "a"


def test_an_approval_holds_while_its_plan_is_carried_out() -> None:
    digest = plan_hash(operations("a", "b"), "z")
    for done in ([], ["z"], ["z", "a"], ["z", "a", "b"]):
        assert not check_facts(state("a", "b", digest=digest, approved=[digest], done=done)).approval_missing
    assert check_facts(state("a", "b", digest=digest, approved=[], done=["z"])).approval_missing


def test_a_plan_that_the_last_release_made_and_had_approved_goes_on() -> None:
    for done in ([], ["a"], ["a", "b"]):
        under_way = state("a", "b", digest=LAST_RELEASES, approved=[LAST_RELEASES], done=done)
        assert not check_facts(under_way).approval_missing


def test_a_plan_that_the_last_release_made_is_not_approved_by_what_was_done_already() -> None:
    again = state("b", digest=LAST_RELEASES, approved=[LAST_RELEASES], done=["a"])
    assert check_facts(again).approval_missing


def test_an_approval_of_the_last_release_is_none_of_a_plan_of_this_one() -> None:
    planned = state("b", digest=plan_hash(operations("b"), "a"), approved=[LAST_RELEASES], done=["a"])
    assert check_facts(planned).approval_missing
