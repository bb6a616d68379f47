"""An executor that refuses for now, loses answers or is away: an operation takes effect once, or nobody knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.scripted_model import Reply
from tests.integration.graph_editor.conftest import Bench
from tests.integration.graph_editor.faulty_executor import broken, lost, refused
from tests.integration.graph_editor.scripted_goals import COMPLEX, goal, plan, ticket


async def test_a_step_that_fails_once_is_done_with_the_same_key(bench: Bench) -> None:
    bench.faulty.faults = [refused("CONFLICT", "Somebody was faster.", retryable=True)]
    bench.script(parse=[goal(*ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "failed", "retry_same", "ok", "goal_complete"]
    assert len(bench.faulty.calls) == 2
    assert len(set(bench.faulty.calls)) == 1


async def test_a_step_that_always_fails_is_given_up(bench: Bench) -> None:
    bench.faulty.faults = [refused("CONFLICT", "Somebody was faster.", retryable=True)] * 9
    bench.script(parse=[goal(*ticket("T-1"))])
    asked = await bench.ask()
    assert asked.rules == ["simple", "valid", *["failed", "retry_same"] * 2, "failed", "retries_exhausted", "ask"]
    assert await bench.nodes("Ticket") == {}


@pytest.mark.parametrize("fault", [lost, broken])
async def test_a_lost_answer_is_asked_for_again_with_the_same_key(bench: Bench, fault: Any) -> None:
    bench.faulty.faults = [fault]
    bench.script(parse=[goal(*ticket("T-1", status="open"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "ok", "goal_complete"]
    assert len(set(bench.faulty.calls)) == 1
    assert ended.output.steps[0].result == "created"
    assert ended.output.answer.startswith("Created the node Ticket 'T-1'")


@pytest.mark.parametrize(
    ("script", "planned_by"),
    [
        ({"parse": [goal(*ticket("T-1"))] * 2}, "parse"),
        ({"parse": [COMPLEX], "plan": [plan(ticket("T-1"))] * 2}, "plan"),
    ],
)
async def test_while_the_graph_is_away_a_model_plans_once_and_once_more_when_it_is_back(
    bench: Bench, script: dict[str, list[Reply]], planned_by: str
) -> None:
    bench.script(**script)
    bench.faulty.away = True
    asking = asyncio.create_task(bench.ask())
    async with asyncio.timeout(60):
        # The channel repeats a call a few times; then the run waits, and looks again.
        while bench.faulty.looks.count("read_changes") < 12:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    bench.faulty.away = False
    ended = await asking
    assert (ended.state, ended.output.answer) == ("SUCCEEDED", "Created the node Ticket 'T-1'.")
    assert len(bench.model.requests_of(planned_by)) == 2
    assert set(bench.faulty.looks) == {"preview_changes", "read_changes"}


async def test_an_operation_that_is_asked_for_again_and_again_in_an_outage_is_one_call_of_the_budget(
    bench: Bench,
) -> None:
    bench.script(parse=[goal(*ticket("T-1")), goal(*ticket("T-2"))])
    plain = await bench.ask()
    bench.faulty.calls.clear()
    bench.faulty.faults = [lost] * 12
    # As many as it takes without an outage: the budget is spent when the operation is done, and not before.
    ended = await bench.ask(tool_calls=plain.run.spend.tool_calls)
    assert (ended.state, ended.rules) == ("SUCCEEDED", plain.rules)
    assert len(bench.faulty.calls) == 13
    assert any(call.kind == "wait" for decision in ended.decisions for call in decision.calls)
    assert ended.run.spend.tool_calls == plain.run.spend.tool_calls
    assert ended.run.spend.model_calls == plain.run.spend.model_calls


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown(bench: Bench) -> None:
    bench.faulty.faults = [lost] * 1000
    bench.script(parse=[goal(*ticket("T-1"))])
    ended = await bench.ask(wall_time_s=5)  # what comes before takes next to none of it
    assert ended.rules[-1] == "outcome_unknown"
    assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "outcome_unknown")
    assert "not known whether it took effect" in ended.output.answer
    assert len(set(bench.faulty.calls)) == 1
