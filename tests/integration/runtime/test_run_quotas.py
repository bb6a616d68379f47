"""Quotas of a caller hold across replicas, to the run; budgets go on where they were when a run changes hands."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.background import attempt
from services.runtime.engine.quota import CallerQuota, TokensSpent
from services.runtime.engine.records import Ending, RunState
from services.runtime.errors import DatabaseAway, RunQuotaExceeded, TooManyRunsAtOnce, TooManyRunsStarted, TooManyTokens
from services.runtime.routing.state import Budget
from tests.fixtures.replica import TOKENS_PER_COUNT, Counting
from tests.integration.runtime.conftest import MakeStore, OwnerStore, StartReplica, ended, new_run


@pytest.fixture
def stores(make_store: MakeStore) -> list[OwnerStore]:
    """Two replicas that let a caller have three runs at once and five a minute."""
    return [make_store(owner, CallerQuota(3, 5)) for owner in ("first", "second")]


async def test_runs_at_once_are_counted_over_all_replicas(stores: list[OwnerStore]) -> None:
    runs = [(await stores[number % 2].create(new_run(), claim=number < 2))[0] for number in range(3)]
    for store in stores:
        with pytest.raises(TooManyRunsAtOnce) as refused:
            await store.create(new_run(), claim=True)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.retry_after_s == 1.0

    await stores[0].end(runs[0], Ending(RunState.SUCCEEDED))
    _, is_new = await stores[1].create(new_run(), claim=True)
    assert is_new


async def test_runs_started_in_a_minute_are_counted_over_all_replicas(
    stores: list[OwnerStore], platform_pool: AsyncConnectionPool[Any]
) -> None:
    begun = time.monotonic()
    for number in range(5):
        run, _ = await stores[number % 2].create(new_run(), claim=True)
        await stores[number % 2].end(run, Ending(RunState.SUCCEEDED))
    with pytest.raises(TooManyRunsStarted) as refused:
        await stores[0].create(new_run(), claim=True)
    assert 60 - (time.monotonic() - begun) <= (refused.value.retry_after_s or 0) <= 60

    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET created_at = created_at - interval '55 seconds'")
        with pytest.raises(TooManyRunsStarted) as sooner:
            await stores[1].create(new_run(), claim=True)
        assert 0 < (sooner.value.retry_after_s or 0) <= 5
        await connection.execute("UPDATE platform.runs SET created_at = created_at - interval '5 seconds'")
    _, is_new = await stores[1].create(new_run(), claim=True)
    assert is_new


async def test_creations_at_the_same_moment_never_pass_the_limit(stores: list[OwnerStore]) -> None:
    attempts = (stores[number % 2].create(new_run(), claim=True) for number in range(24))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(result, tuple) for result in results) == 3
    assert sum(isinstance(result, TooManyRunsAtOnce) for result in results) == 21


async def test_a_repeat_of_a_request_and_another_caller_are_not_refused(stores: list[OwnerStore]) -> None:
    runs = [(await stores[0].create(new_run(request_id=f"r{number}"), claim=True))[0] for number in range(3)]
    found, is_new = await stores[1].create(new_run(request_id="r1"), claim=True)
    assert (found.run_id, is_new) == (runs[1].run_id, False)
    _, is_new = await stores[1].create(new_run("28"), claim=True)
    assert is_new


async def test_a_refused_run_of_a_thread_cancels_nothing(stores: list[OwnerStore]) -> None:
    active = [(await stores[0].create(new_run(thread_id=f"t{number}"), claim=True))[0] for number in range(3)]
    with pytest.raises(RunQuotaExceeded):
        await stores[1].create(new_run(thread_id="t0", active_run_policy="cancel_active"), claim=True)
    assert await stores[0].upkeep.owned(active) == []
    assert (await stores[0].get(active[0].run_id, active[0].caller)).state is RunState.RUNNING


async def test_no_quota_is_no_limit(first: OwnerStore) -> None:
    made = [await first.create(new_run(), claim=False) for _ in range(20)]
    assert all(is_new for _, is_new in made)


async def test_spend_goes_on_where_it_was_when_another_replica_takes_over(start_replica: StartReplica) -> None:
    slow = await start_replica()
    gate = slow.counting.hold(4)
    budget = Budget(model_calls=6, tool_calls=0, tokens=0, wall_time_s=0.0)
    run, _ = await slow.engine.create(new_run(until=20, budget=budget))
    await asyncio.wait_for(slow.counting.reached.wait(), 60)
    before = await slow.store.get(run.run_id, run.caller)
    assert before.spend["model_calls"] == 3

    heir = await start_replica(Counting())
    # Drained with its node in flight: the run is given back from its last checkpoint, and the heir goes on.
    await slow.engine.drain()
    after = await asyncio.wait_for(ended(heir, run), 60)
    gate.set()
    assert [number for _, number in heir.counting.counted] == [4, 5, 6]
    assert (after.state, after.stop_reason, after.epoch) == (RunState.NEEDS_REVIEW, "budget_exhausted", 2)
    assert after.spend["model_calls"] == 6
    assert after.spend["input_tokens"] == 6 * TOKENS_PER_COUNT[0]
    assert after.spend["wall_time_s"] >= before.spend["wall_time_s"]


async def test_tokens_of_a_day_are_counted_over_all_replicas(start_replica: StartReplica) -> None:
    spent = sum(TOKENS_PER_COUNT) * 5
    quota = CallerQuota(tokens_per_day=2 * spent)
    here, elsewhere = await start_replica(quota=quota), await start_replica(Counting(), quota=quota)
    for replica in (here, elsewhere):
        run, is_new = await replica.engine.create(new_run(until=5))
        assert is_new
        assert (await asyncio.wait_for(ended(replica, run), 60)).state is RunState.SUCCEEDED
    refusals: list[TooManyTokens] = []
    async with asyncio.timeout(60):
        while not refusals:
            try:  # a replica writes down what was spent with its next sweep
                run, _ = await here.engine.create(new_run(until=0))
                await ended(here, run)
            except TooManyTokens as refused:
                refusals.append(refused)
    assert refusals[0].code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 0 < (refusals[0].retry_after_s or 0) <= 86_400
    _, is_new = await here.engine.create(new_run("28", until=1))
    assert is_new, "another caller's tokens are its own"
    async with here.pool.connection() as connection:
        await connection.execute("UPDATE platform.caller_tokens SET day = day - 1")
    _, is_new = await here.engine.create(new_run(until=1))
    assert is_new, "a day later"


async def test_tokens_that_could_not_be_written_down_are_not_forgotten(first: OwnerStore) -> None:
    spent = TokensSpent()
    spent.add("27", 5)
    async with AsyncExitStack() as stack:
        pool = first.upkeep._pool
        pool.timeout = 0.1
        for _ in range(pool.max_size):
            await stack.enter_async_context(pool.connection())
        with pytest.raises(DatabaseAway):
            await first.upkeep.add_tokens(spent)
    spent.add("27", 2)
    await first.upkeep.add_tokens(spent)
    await first.upkeep.add_tokens(spent)
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT subject, tokens FROM platform.caller_tokens")
        assert await cursor.fetchall() == [("27", 7)]


async def test_tokens_of_a_round_that_is_cut_off_are_told_in_the_next(start_replica: StartReplica) -> None:
    replica = await start_replica()
    spent = TokensSpent()
    spent.add("27", 1000)
    async with replica.pool.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE platform.caller_tokens IN ACCESS EXCLUSIVE MODE")
        assert not await attempt("sweep", replica.upkeep.add_tokens(spent), limit_s=0.1)
    assert spent.take() == {"27": 1000}
