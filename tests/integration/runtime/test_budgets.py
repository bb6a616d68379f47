"""Budgets hold inside one answer of a model, whichever agent it works for: what is beyond them is not done."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from signalbox.v1 import runs_pb2, sast_pb2, tools_pb2

from tests.fixtures.code_readings import reading_of
from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import draft
from tests.integration.graph_editor.scripted_goals import COMPLEX
from tests.integration.runtime.odd_services import OddServices, output
from tests.integration.runtime.test_odd_answers import (
    FRAGMENT,
    GIVEN,
    NO_EXAMPLES,
    QUESTION,
    concluded,
    incident,
    result,
)
from tests.integration.runtime.test_odd_verdicts import CLAIM

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


FIRST = {"data_chat": "agent", "incident_investigation": "incident", "sast_triage": "triage", "graph_editor": "parse"}
LAST = {"data_chat": "format", "graph_editor": "plan"}


async def cut_within_a_node(odd: OddServices, agents: Iterable[str]) -> list[runs_pb2.Run]:
    """Runs of these agents, of which each has come to its end by the wall time."""
    start = time.monotonic()
    runs = await asyncio.gather(*(odd.run(GIVEN[agent](), wall_time_s=3) for agent in agents))
    ends = {run.agent: (runs_pb2.RunState.Name(run.state), run.stop_reason) for run in runs}
    assert ends == dict.fromkeys(agents, ("RUN_STATE_NEEDS_REVIEW", "budget_exhausted"))
    # A node might have taken minutes.
    assert time.monotonic() - start < 30
    return runs


@pytest.mark.parametrize("models", [FIRST, LAST], ids=["first", "last"])
async def test_a_model_that_is_slow_ends_with_the_wall_time(odd: OddServices, models: Mapping[str, str]) -> None:
    never = asyncio.Event()
    odd.model.script("agent", [Reply.tool_call(*QUERY)])
    odd.model.script("parse", [COMPLEX])
    for model in models.values():
        odd.model.script(model, [Reply.text("late").after(never)], repeat="last")
    first, *_ = await cut_within_a_node(odd, models)
    never.set()
    assert all(len(odd.model.requests_of(model)) == 1 for model in models.values())
    # What there was is kept.
    assert bool(first.output.data_chat.rows.rows) is (models is LAST)


async def test_an_evaluator_that_is_slow_ends_with_the_wall_time(odd: OddServices) -> None:
    odd.judging.clear()
    odd.answers["read_file"] = output({"fragments": [FRAGMENT]}, code_readings=[reading_of("a.py", "a\nb\nc\n")])
    odd.model.script("research", [Reply.tool_call("read_file", {"path": "a.py"}), Reply.text("That is all.")])
    odd.model.script("analysis", [draft("FALSE_POSITIVE", CLAIM)])
    odd.model.respond("incident", lambda _: concluded(query={"query": QUERY[1]["query"], "row": {"a": "x"}}))
    investigated, incident_run = await cut_within_a_node(odd, ("sast_investigation", "incident_investigation"))
    odd.judging.set()
    assert investigated.output.sast_investigation.verdict == sast_pb2.VERDICT_NEEDS_REVIEW
    assert list(investigated.output.sast_investigation.drafted_verdicts) == [sast_pb2.VERDICT_FALSE_POSITIVE]
    found = incident_run.output.incident_investigation
    assert (found.root_cause, found.validated) == ("r", False)
