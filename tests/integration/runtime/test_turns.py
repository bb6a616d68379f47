"""Callers take turns: who has many runs waiting delays nobody's first by more than one claim."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.records import RunRecord, RunState
from tests.integration.runtime.conftest import AGENTS, OwnerStore, StartReplica, ended, new_run

TIMEOUT_S = 120.0
_MANY = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
        created_at)
    SELECT gen_random_uuid(), 'counting', '1', %s || CASE %s WHEN 1 THEN '' ELSE (n %% %s)::text END, '{}', 'c',
        'PENDING', '', '{}', now() - interval '1 h' + n * interval '1 ms'
    FROM generate_series(1, %s) AS n
"""
_WAIT = "UPDATE platform.runs SET not_before = now() + %s::interval WHERE state = 'PENDING'"


async def _fill(pool: AsyncConnectionPool[Any], subject: str, runs: int, callers: int = 1) -> None:
    async with pool.connection() as connection:
        await connection.execute(_MANY, [subject, callers, callers, runs])


async def _claim(store: OwnerStore, limit: int = 1) -> list[RunRecord]:
    return await store.upkeep.claim_pending(limit, AGENTS)


@pytest.fixture
async def crowd(first: OwnerStore, platform_pool: AsyncConnectionPool[Any]) -> OwnerStore:
    """One caller has 10,000 runs waiting, and has just had a turn."""
    await _fill(platform_pool, "many", 10_000)
    await _claim(first)
    return first


async def test_another_s_first_run_is_delayed_by_one_claim(crowd: OwnerStore) -> None:
    for subject in ("a", "z"):  # before and behind the other, as names sort
        run, _ = await crowd.create(new_run(subject), claim=False)
        claimed = [claimed.run_id for _ in range(2) for claimed in await _claim(crowd)]
        assert run.run_id in claimed


async def test_a_claim_of_several_gives_everybody_the_same(crowd: OwnerStore, platform_pool: Any) -> None:
    await _fill(platform_pool, "some", 100)
    await _fill(platform_pool, "one", 1)
    claimed = Counter(run.caller.subject for run in await _claim(crowd, 60))
    assert claimed["one"] == 1
    assert abs(claimed["many"] - claimed["some"]) <= 20
    assert claimed.total() == 60, "what one caller does not need, others get"


async def test_replicas_take_turns_on_their_own_and_none_is_passed_over(
    first: OwnerStore, second: OwnerStore, platform_pool: Any
) -> None:
    await _fill(platform_pool, "caller ", 700, callers=7)
    claimed: list[RunRecord] = []
    while found := await asyncio.gather(*(_claim(store, 16) for store in (first, second))):
        if not any(found):
            break
        claimed += [run for runs in found for run in runs]
    assert len({run.run_id for run in claimed}) == len(claimed) == 700
    for subject in {run.caller.subject for run in claimed}:
        of_caller = [run.created_at for run in claimed if run.caller.subject == subject]
        assert len(of_caller) == 100


async def test_a_caller_s_own_runs_go_in_order(crowd: OwnerStore) -> None:
    claimed = [run.created_at for _ in range(20) for run in await _claim(crowd)]
    assert claimed == sorted(claimed)


async def test_what_may_not_begin_yet_keeps_nobody_waiting(crowd: OwnerStore, platform_pool: Any) -> None:
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET not_before = now() + interval '1 h' WHERE state = 'PENDING'")
    run, _ = await crowd.create(new_run("z"), claim=False)
    assert [claimed.run_id for claimed in await _claim(crowd, 10)] == [run.run_id]
    assert await _claim(crowd, 10) == []
    async with platform_pool.connection() as connection:
        await connection.execute(_WAIT, ["0 s"])
    assert len(await _claim(crowd, 10)) == 10


async def test_callers_whose_runs_nobody_can_carry_are_passed_by(
    first: OwnerStore, platform_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.runtime.engine.upkeep.MOST_CALLERS", 4)
    await _fill(platform_pool, "caller ", 50, callers=10)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET agent = 'newer'")
    run, _ = await first.create(new_run("zoe"), claim=False)
    claimed = [claimed.run_id for _ in range(4) for claimed in await _claim(first)]
    assert claimed == [run.run_id], "a claim looks at some callers, and the next goes on behind them"


async def test_who_creates_a_run_does_not_go_before_those_who_wait(start_replica: StartReplica) -> None:
    replica = await start_replica(max_concurrent_runs=1)
    gate = replica.counting.hold(1)
    async with asyncio.timeout(TIMEOUT_S):
        created = [(await replica.engine.create(new_run(f"caller {number}", until=1)))[0] for number in range(4)]
        gate.set()
        # As soon as there is room, somebody comes who would find it free.
        last = await ended(replica, created[0])
        late, _ = await replica.engine.create(new_run("caller 0", until=1))
        done = [await ended(replica, run) for run in (*created[1:], late)]
    assert {run.state for run in (last, *done)} == {RunState.SUCCEEDED}
    begun = sorted(done, key=lambda run: run.started_at or run.created_at)
    assert [run.caller.subject for run in begun] == ["caller 1", "caller 2", "caller 3", "caller 0"]
