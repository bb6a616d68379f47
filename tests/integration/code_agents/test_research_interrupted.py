"""Research that is cut short, by its model, a replica, the database or a person, and what is left of it then."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import FLAGGED, Bench, MakeBench, critique
from tests.integration.code_agents.scripted_investigation import DRAFTED, ENOUGH, READ, READ_CALLER


@pytest.mark.parametrize(
    "failure", [Reply.http_error(500), Reply.http_error(429), Reply.drop()], ids=["500", "429", "cut"]
)
async def test_research_calls_that_fail_in_passing_are_repeated(bench: Bench, failure: Reply) -> None:
    bench.model.script("research", [READ, failure, ENOUGH])
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate()
    assert ended.rules == ["approved"]
    outcomes = [outcome for node, kind, _, outcome in ended.calls if (node, kind) == ("research", "model")]
    assert sorted(outcomes) == ["DEPENDENCY_AWAY", "ok", "ok"]


async def test_what_research_read_is_analysed_where_its_model_refuses_to_go_on(bench: Bench) -> None:
    bench.model.script("research", [READ, Reply.http_error(400)], repeat="last")
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate()
    assert (ended.state, ended.rules[-1]) == ("SUCCEEDED", "approved")
    assert list(ended.output.fetched_files) == ["app/db.py"]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Reply.http_error(500), "the model research is away (http_500)"),
        (Reply.raw("<html>"), "the model research is away (not_json)"),
    ],
    ids=["away", "nonsense"],
)
async def test_research_that_cannot_be_mended_fails_the_run(bench: Bench, failure: Reply, words: str) -> None:
    bench.model.script("research", [READ, failure], repeat="last")
    ended = await bench.investigate(wall_time_s=5)
    assert (ended.state, ended.rules) == ("FAILED", ["node_failed"])
    assert ended.verdict == "NEEDS_REVIEW"
    assert words in ended.run.error
    made = [(kind, name) for _, kind, name, outcome in ended.calls if outcome == "ok"]
    assert made == [("model", "research"), ("tool", "read_file")]
    assert ended.run.spend.tool_calls == 1


async def test_a_replica_that_hands_over_during_research_loses_none_of_it(make_bench: MakeBench) -> None:
    async with make_bench() as bench:
        never = asyncio.Event()
        bench.model.script("research", [READ, READ_CALLER, ENOUGH.after(never), ENOUGH])
        bench.model.script("analysis", [DRAFTED])
        bench.model.script("judge", [critique("approved")])
        async with bench.runtime():
            run_id = await bench.create("sast_investigation")
            await bench.model.wait_for_requests(3, model="research")
        async with bench.runtime():
            ended = await bench.watch(run_id)
        assert ended.run.epoch == 2
        assert (ended.state, ended.verdict) == ("SUCCEEDED", "TRUE_POSITIVE")
        assert list(ended.output.fetched_files) == ["app/db.py", "app/web.py"]
        # What was spent before the hand-over is part of the run's spend.
        assert (ended.run.spend.model_calls, ended.run.spend.tool_calls) == (5, 2)
        # The two calls whose steps were saved are not made again.
        assert len(bench.model.requests_of("research")) == 4
        told = "\n".join(message["content"] for message in bench.model.requests_of("research")[3].messages)
        assert f"{FLAGGED} |     return connection.execute" in told


async def test_a_database_that_goes_away_in_research_fails_no_run(make_bench: MakeBench, platform_dsn: str) -> None:
    async with make_bench() as bench, bench.runtime():
        gate = asyncio.Event()
        bench.model.script("research", [READ, READ_CALLER.after(gate), ENOUGH, ENOUGH])
        bench.model.script("analysis", [DRAFTED])
        bench.model.script("judge", [critique("approved")])
        run_id = await bench.create("sast_investigation")
        await bench.model.wait_for_requests(2, model="research")
        await cut_at_next_write(platform_dsn, run_id, gate)
        ended = await bench.watch(run_id)
    assert (ended.state, ended.rules) == ("SUCCEEDED", ["approved"])
    assert ended.run.epoch == 2


async def cut_at_next_write(dsn: str, run_id: str, gate: asyncio.Event) -> None:
    """Opens a gate behind which a run writes a step, and cuts the connection in the middle of that statement."""
    holding = await psycopg.AsyncConnection.connect(dsn)
    cutting = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with holding, cutting, asyncio.timeout(60):
        await holding.execute("SELECT FROM platform.runs WHERE run_id = %s FOR UPDATE", [run_id])
        gate.set()
        cut = 0
        while not cut:
            cursor = await cutting.execute(_CUT_WAITING)
            cut = len(await cursor.fetchall())


_CUT_WAITING = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'signalbox-runtime' AND datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%SET idle_claims = CASE%'
"""


async def test_research_that_is_cancelled_is_broken_off_and_all_its_steps_are_paid_for(bench: Bench) -> None:
    bench.model.script("research", [READ, READ_CALLER.after(asyncio.Event())], repeat="last")
    run_id = await bench.create("sast_investigation")
    await bench.model.wait_for_requests(2, model="research")
    await bench.cancel(run_id)
    ended = await bench.watch(run_id)
    assert ended.state == "CANCELLED"
    assert len(bench.model.requests_of("research")) == ended.run.spend.model_calls == 2
