"""Budgets hold inside one answer of a model, whichever agent it works for: what is beyond them is not done."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from signalbox.v1 import runs_pb2, tools_pb2

from tests.fixtures.scripted_model import Reply
from tests.integration.runtime.odd_services import OddServices
from tests.integration.runtime.test_odd_answers import NO_EXAMPLES, QUESTION, concluded, incident, result

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 40
QUERY: tuple[str, dict[str, Any]] = ("execute_db_query", {"query": "SELECT a, b FROM t"})


@pytest.fixture
def odd(around_runtime: OddServices) -> OddServices:
    """The services, with a runtime among them."""
    around_runtime.forget()
    around_runtime.answers["get_few_shot_examples"] = NO_EXAMPLES
    around_runtime.answers["execute_db_query"] = result(["a", "b"], ["x", "y"])
    return around_runtime


def called(odd: OddServices) -> Counter[str]:
    """How often each tool was called."""
    return Counter(tool for tool, _ in odd.called)


async def test_calls_beyond_the_budget_are_answered_and_not_made(odd: OddServices) -> None:
    odd.answers["execute_db_query"] = tools_pb2.CallToolResponse(
        error=tools_pb2.ToolError(reason="query_failed", message="no such table")
    )
    odd.model.script("agent", [Reply.all_tool_calls([QUERY] * MANY)], repeat="last")
    run = await odd.run(QUESTION, tool_calls=5, wall_time_s=60)
    assert called(odd) == {"get_few_shot_examples": 1, "execute_db_query": 4}
    assert (run.state, run.stop_reason) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, "budget_exhausted")
    assert run.spend.tool_calls == 5


async def test_an_investigation_makes_no_more_calls_than_are_left(odd: OddServices) -> None:
    concludes = concluded(query={"query": "SELECT a, b FROM t", "row": {"a": "x"}})
    odd.model.script("incident", [Reply.all_tool_calls([QUERY] * 8), concludes])
    run = await odd.run(incident(), tool_calls=3, wall_time_s=60)
    assert called(odd) == {"execute_db_query": 3}
    assert (run.state, run.stop_reason) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, "budget_exhausted")
    told = [str(message["content"]) for message in odd.model.requests_of("incident")[-1].messages]
    assert sum("is spent, and the call was not made" in text for text in told) == 5


async def test_the_results_of_calls_within_the_wall_time_are_kept(odd: OddServices) -> None:
    began = 0

    async def slower(_request: Any, _context: Any) -> tools_pb2.CallToolResponse:
        nonlocal began
        began += 1
        if began > 1:
            await asyncio.Event().wait()
        return result(["a", "b"], ["x", "y"])

    odd.answers["execute_db_query"] = slower
    odd.model.script("agent", [Reply.all_tool_calls([QUERY] * MANY)])
    run = await odd.run(QUESTION, wall_time_s=3)
    assert began == 2
    assert run.output.data_chat.rows.rows[0].values[0].text_value == "x"


@pytest.mark.parametrize(("model", "asked"), [("agent", QUESTION), ("incident", None)])
async def test_a_model_that_is_slow_ends_with_the_wall_time(
    odd: OddServices, model: str, asked: runs_pb2.RunInput | None
) -> None:
    never = asyncio.Event()
    odd.model.script(model, [Reply.text("late").after(never)], repeat="last")
    start = time.monotonic()
    run = await odd.run(asked or incident(), wall_time_s=2)
    never.set()
    assert (run.state, run.stop_reason) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, "budget_exhausted")
    # The node might have taken minutes.
    assert time.monotonic() - start < 30
