"""Quotas of a caller hold across replicas, to the run; budgets go on where they were when a run changes hands."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import Ending, RunState
from services.runtime.engine.store import RunStore
from services.runtime.errors import RunQuotaExceeded, TooManyRunsAtOnce, TooManyRunsStarted
from services.runtime.routing.state import Budget
from tests.fixtures.replica import TOKENS_PER_COUNT, Counting
from tests.integration.runtime.conftest import MakeStore, StartReplica, ended, new_run


@pytest.fixture
def stores(make_store: MakeStore) -> list[RunStore]:
    """Two replicas that let a caller have three runs at once and five a minute."""
    return [make_store(owner, CallerQuota(3, 5)) for owner in ("first", "second")]


async def test_runs_at_once_are_counted_over_all_replicas(stores: list[RunStore]) -> None:
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
    stores: list[RunStore], platform_pool: AsyncConnectionPool[Any]
) -> None:
    begun = time.monotonic()
    for number in range(5):
        run, _ = await stores[number % 2].create(new_run(), claim=True)
        await stores[number % 2].end(run, Ending(RunState.SUCCEEDED))
    with pytest.raises(TooManyRunsStarted) as refused:
        await stores[0].create(new_run(), claim=True)
    assert 60 - (time.monotonic() - begun) <= (refused.value.retry_after_s or 0) <= 60

    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE runs SET created_at = created_at - interval '55 seconds'")
        with pytest.raises(TooManyRunsStarted) as sooner:
            await stores[1].create(new_run(), claim=True)
        assert 0 < (sooner.value.retry_after_s or 0) <= 5
        await connection.execute("UPDATE runs SET created_at = created_at - interval '5 seconds'")
    _, is_new = await stores[1].create(new_run(), claim=True)
    assert is_new


async def test_creations_at_the_same_moment_never_pass_the_limit(stores: list[RunStore]) -> None:
    attempts = (stores[number % 2].create(new_run(), claim=True) for number in range(24))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(result, tuple) for result in results) == 3
    assert sum(isinstance(result, TooManyRunsAtOnce) for result in results) == 21


async def test_a_repeat_of_a_request_and_another_caller_are_not_refused(stores: list[RunStore]) -> None:
    runs = [(await stores[0].create(new_run(request_id=f"r{number}"), claim=True))[0] for number in range(3)]
    found, is_new = await stores[1].create(new_run(request_id="r1"), claim=True)
    assert (found.run_id, is_new) == (runs[1].run_id, False)
    _, is_new = await stores[1].create(new_run("28"), claim=True)
    assert is_new


async def test_a_refused_run_of_a_thread_cancels_nothing(stores: list[RunStore]) -> None:
    active = [(await stores[0].create(new_run(thread_id=f"t{number}"), claim=True))[0] for number in range(3)]
    with pytest.raises(RunQuotaExceeded):
        await stores[1].create(new_run(thread_id="t0", active_run_policy="cancel_active"), claim=True)
    assert await stores[0].cancel_requests() == []
    assert (await stores[0].get(active[0].run_id, active[0].caller)).state is RunState.RUNNING


async def test_no_quota_is_no_limit(first: RunStore) -> None:
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
