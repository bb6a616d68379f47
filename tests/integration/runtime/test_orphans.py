"""Runs that nobody executes: they are found, counted, and brought to their end, with no record written twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from prometheus_client import REGISTRY

from services.runtime.engine.questions import Answer
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.upkeep import CLAIM_LIMIT, Upkeep
from tests.fixtures.replica import Counting, Replica, answer_of, open_replica
from tests.integration.runtime.conftest import new_run

TIMEOUT_S = 60.0
# A run as it is when its replica dies after the last checkpoint and before the end is written down.
_UNDO_END = """
    WITH undone AS (
        UPDATE platform.runs
        SET state = 'RUNNING', owner = 'gone', output = NULL, ended_at = NULL, event_count = event_count - 1,
            lease_expires_at = now() + interval '1 hour'
        WHERE run_id = %s RETURNING run_id, event_count
    )
    DELETE FROM platform.run_events AS e USING undone AS u WHERE e.run_id = u.run_id AND e.sequence > u.event_count
"""
_BOOKS = """
    SELECT array_agg(sequence ORDER BY sequence) = array_agg(n), count(*) = min(event_count), min(decision_count)
    FROM (SELECT e.sequence, row_number() OVER (ORDER BY e.sequence) AS n, r.event_count, r.decision_count
          FROM platform.run_events AS e JOIN platform.runs AS r USING (run_id) WHERE e.run_id = %s) AS numbered
"""


@pytest.fixture
def counting() -> Counting:
    """The agent."""
    return Counting()


@pytest.fixture
async def replica(platform_dsn: str, counting: Counting) -> AsyncIterator[Replica]:
    """A replica that looks for orphans all the time."""
    async with open_replica(platform_dsn, counting) as made:
        yield made


async def ended(replica: Replica, run: RunRecord) -> RunRecord:
    """Waits for a run's end."""
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, 0):
            last = event
    assert last.kind == "run_ended"
    return await replica.store.get(run.run_id, run.caller)


async def whole(replica: Replica, run_id: str) -> int:
    """Checks that a run's events have neither gap nor repeat; returns the number of its decisions."""
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(_BOOKS, [run_id])
        [[gapless, all_there, decisions]] = await cursor.fetchall()
    assert gapless
    assert all_there
    return int(decisions)


def orphaned() -> float | None:
    """The metric."""
    return REGISTRY.get_sample_value("signalbox_runs_orphaned")


async def test_a_claim_whose_answer_was_lost(replica: Replica) -> None:
    run, _ = await replica.store.create(new_run(until=3), claim=True)  # the engine knows nothing of it
    assert run.state is RunState.RUNNING
    done = await ended(replica, run)
    assert (done.state, done.epoch, answer_of(done.output)) == (RunState.SUCCEEDED, 2, "1 2 3")
    await whole(replica, run.run_id)


async def test_a_caller_who_leaves_while_the_run_is_created(replica: Replica) -> None:
    for ticks in range(12):
        creating = asyncio.create_task(replica.engine.create(new_run(until=2)))
        for _ in range(ticks):
            await asyncio.sleep(0)
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
    async with asyncio.timeout(TIMEOUT_S):
        while (states := await _states(replica)) != {"SUCCEEDED"}:
            assert states <= {"SUCCEEDED", "RUNNING"}
            await asyncio.sleep(0.02)
    epochs = await _column(replica, "SELECT DISTINCT epoch FROM platform.runs")
    assert epochs == [1], "the runs went on where they were, and did not wait to be found"


async def test_a_replica_that_dies_before_the_end_is_written(replica: Replica) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    first = await ended(replica, run)
    decisions = await whole(replica, run.run_id)
    async with replica.pool.connection() as connection:
        await connection.execute(_UNDO_END, [run.run_id])
    again = await ended(replica, run)
    assert (again.state, again.output, again.spend) == (first.state, first.output, first.spend)
    assert again.epoch == 2
    assert await whole(replica, run.run_id) == decisions, "no node ran again"
    assert len(replica.counting.counted) == 3


async def test_a_run_that_its_own_replica_lost_and_found(replica: Replica, counting: Counting) -> None:
    gate = counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=3))
    await counting.reached.wait()
    counting.reached.clear()
    async with replica.pool.connection() as connection:
        await connection.execute("UPDATE platform.replicas SET lease_expires_at = now() - interval '1 s'")
    another = Upkeep(replica.pools, replica.pins, owner="another", lease_s=15)
    assert [freed.run_id for freed in (await another.take_over()).freed] == [run.run_id]
    await asyncio.wait_for(counting.reached.wait(), TIMEOUT_S)  # the second execution is there
    gate.set()
    done = await ended(replica, run)
    assert (done.state, done.epoch, answer_of(done.output)) == (RunState.SUCCEEDED, 2, "1 2 3")
    assert [number for _, number in counting.counted] == [1, 2, 3], "the first execution was stopped"
    await whole(replica, run.run_id)
    first, second, again, third = counting.led_by
    assert (first, again) == ((1, "", ""), second), "a node is told by what it was led to, whoever executes it"
    assert (second[:2], third[:2]) == ((2, "go_on"), (3, "go_on"))
    assert len({second[2], third[2], ""}) == 3


@pytest.mark.parametrize("kept", [True, False], ids=["kept beside the checkpoint", "only in the ledger"])
async def test_a_node_that_asked_knows_what_led_to_it(replica: Replica, counting: Counting, *, kept: bool) -> None:
    counting.asks = {2}
    run, _ = await replica.engine.create(new_run(until=2))
    async with asyncio.timeout(TIMEOUT_S):
        async for _ in replica.engine.watch(run, 0):
            """It ends with the question."""
    asking = (await replica.store.get(run.run_id, run.caller)).input_request
    assert asking
    if not kept:  # as by the release before this one
        async with replica.pools.steps.connection() as connection:
            await connection.execute("UPDATE platform.checkpoints SET metadata = metadata - 'led_by'")
    await replica.engine.answer(run.caller, Answer(run.run_id, asking.input_request_id, "yes"))
    await ended(replica, run)
    _, before, after = counting.led_by
    assert before == after
    assert before[1] == "go_on"


async def test_a_run_of_an_agent_that_only_another_release_has(replica: Replica, platform_dsn: str) -> None:
    unknown, _ = await replica.store.create(new_run(agent="newer"), claim=False)
    known, _ = await replica.store.create(new_run(), claim=False)
    assert (await ended(replica, known)).state is RunState.SUCCEEDED
    assert (await replica.store.get(unknown.run_id, unknown.caller)).state is RunState.PENDING
    async with open_replica(platform_dsn, Counting(), agent="newer") as newer:
        done = await ended(newer, unknown)
    assert (done.state, answer_of(done.output)) == (RunState.SUCCEEDED, "1 2 3")


async def test_a_run_whose_database_takes_no_writes_for_a_while(replica: Replica, counting: Counting) -> None:
    gate = counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=3))
    await asyncio.wait_for(counting.reached.wait(), TIMEOUT_S)
    async with AsyncExitStack() as stack:
        for pool in (replica.pools.steps, replica.pools.calls, replica.pools.upkeep):
            for _ in range(pool.max_size):
                connection = await stack.enter_async_context(pool.connection())
                # As when a primary becomes a standby.
                await connection.execute("SET default_transaction_read_only = on")
    gate.set()
    done = await ended(replica, run)
    assert (done.state, answer_of(done.output)) == (RunState.SUCCEEDED, "1 2 3")
    await whole(replica, run.run_id)


async def test_orphans_are_counted_until_they_are_freed(platform_dsn: str, replica: Replica) -> None:
    run, _ = await replica.store.create(new_run(until=1), claim=False)
    done = await ended(replica, run)
    await _until_orphaned(0)
    async with await psycopg.AsyncConnection.connect(platform_dsn) as other:  # not in autocommit mode: it holds a lock
        await other.execute(_UNDO_END, [run.run_id])
        await other.commit()
        await other.execute("SELECT 1 FROM platform.runs WHERE run_id = %s FOR SHARE", [run.run_id])
        await _until_orphaned(1)
        await other.rollback()
    assert (await ended(replica, run)).output == done.output
    await _until_orphaned(0)


async def _until_orphaned(count: float) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while orphaned() != count:  # noqa: ASYNC110 - a gauge tells nobody
            await asyncio.sleep(0.02)


async def _column(replica: Replica, statement: str) -> list[Any]:
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(statement.encode())
        return [value for (value,) in await cursor.fetchall()]


async def _states(replica: Replica) -> set[str]:
    return set(await _column(replica, "SELECT state FROM platform.runs"))


async def test_a_run_that_never_takes_a_step_is_given_up(replica: Replica, counting: Counting) -> None:
    counting.hold(1)
    run, _ = await replica.engine.create(new_run(until=3))
    another = Upkeep(replica.pools, replica.pins, owner="another", lease_s=15)
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := await replica.store.get(run.run_id, run.caller)).state.ended:
            async with replica.pool.connection() as connection:
                await connection.execute("UPDATE platform.replicas SET lease_expires_at = now() - interval '1 s'")
            await another.take_over()
            await asyncio.sleep(0.02)
    assert (found.state, found.stop_reason) == (RunState.FAILED, CLAIM_LIMIT)
    assert "without taking a step" in found.error
    await whole(replica, run.run_id)


async def test_a_step_makes_room_for_further_claims(replica: Replica, counting: Counting) -> None:
    gate = counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=3))
    await counting.reached.wait()
    async with replica.pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET idle_claims = 7 WHERE run_id = %s", [run.run_id])
    gate.set()
    await ended(replica, run)
    assert await _column(replica, "SELECT idle_claims FROM platform.runs") == [0]
