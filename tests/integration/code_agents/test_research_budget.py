"""Research keeps within its run's budget, and no replica that takes over forgets what was spent."""

from __future__ import annotations

import asyncio

import pytest

from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import TAINTED, Bench, MakeBench, critique, draft

READ = Reply.tool_call("read_file", {"path": "app/db.py"})
READ_TWICE = Reply.all_tool_calls([("read_file", {"path": "app/db.py"}), ("read_file", {"path": "app/web.py"})])
ENOUGH = Reply.text("The code bank has it all.")
TOKENS_PER_CALL = 15
# Longer than what comes before the first call may take.
HELD_S = 3.0


def script(bench: Bench, *research: Reply) -> None:
    """Has research go on with its last reply, and every draft approved."""
    bench.model.script("research", research, repeat="last")
    bench.model.script("analysis", [draft("TRUE_POSITIVE", TAINTED)])
    bench.model.script("judge", [critique("approved")])


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        ({"tokens": 2 * TOKENS_PER_CALL}, 2),
        ({"tokens": 2 * TOKENS_PER_CALL + 1}, 3),
        ({"tool_calls": 4}, 2),
    ],
    ids=["tokens", "tokens and a step", "tool calls"],
)
async def test_research_ends_at_the_step_that_spends_the_budget(
    bench: Bench, budget: dict[str, int], turns: int
) -> None:
    script(bench, READ_TWICE, READ_TWICE)
    ended = await bench.investigate(**budget)
    assert len(bench.model.requests_of("research")) == turns
    assert (ended.state, ended.verdict, ended.rules) == ("SUCCEEDED", "TRUE_POSITIVE", ["approved"])


async def test_research_ends_with_the_run_s_time_and_keeps_what_it_has(bench: Bench) -> None:
    never = asyncio.Event()
    script(bench, READ_TWICE, READ.after(never))
    ended = await bench.investigate(wall_time_s=int(HELD_S))
    never.set()
    assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "budget_exhausted")
    assert ended.run.spend.tool_calls == 2


async def test_a_turn_makes_no_more_tool_calls_than_the_budget_leaves(bench: Bench) -> None:
    script(bench, READ_TWICE)
    ended = await bench.investigate(tool_calls=3)
    assert len(bench.model.requests_of("research")) == 2
    assert ended.run.spend.tool_calls == 3


async def test_the_time_of_research_survives_a_takeover(make_bench: MakeBench) -> None:
    async with make_bench() as bench:
        never = asyncio.Event()
        bench.model.script("research", [READ.delayed(HELD_S), READ.after(never), ENOUGH])
        bench.model.script("analysis", [draft("TRUE_POSITIVE", TAINTED)])
        bench.model.script("judge", [critique("approved")])
        async with bench.runtime():
            run_id = await bench.create("sast_investigation")
            await bench.model.wait_for_requests(2, model="research")
        async with bench.runtime():
            ended = await bench.watch(run_id)
    assert (ended.state, ended.run.epoch) == ("SUCCEEDED", 2)
    [research] = [node for node in ended.nodes if node.node == "research"]
    # What the node took at the replica that ended it, and the first call, which another made.
    assert ended.run.spend.wall_time_s >= research.elapsed_ms / 1000 >= HELD_S
