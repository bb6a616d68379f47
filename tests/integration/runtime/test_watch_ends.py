"""A watch ends: wherever it begins, and however many events there are to catch up with."""

from __future__ import annotations

import asyncio

import pytest

from services.runtime.engine import events
from services.runtime.engine.records import RunRecord
from services.runtime.errors import Draining, RunNotFound
from tests.fixtures.replica import Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
async def done(replica: Replica) -> RunRecord:
    """A run that has ended with its fifth event."""
    run, _ = await replica.engine.create(new_run(until=2))
    return await asyncio.wait_for(ended(replica, run), TIMEOUT_S)


async def watched(replica: Replica, run: RunRecord, after: int) -> list[int]:
    """The sequences that a watcher is told."""
    async with asyncio.timeout(TIMEOUT_S):
        return [event.sequence async for event in replica.engine.watch(run, after)]


@pytest.mark.parametrize("after", [5, 6, 5000])
async def test_when_the_end_has_been_seen(replica: Replica, done: RunRecord, after: int) -> None:
    assert done.event_count == 5
    assert await watched(replica, done, after) == []


async def test_behind_a_number_that_no_event_has_yet(replica: Replica) -> None:
    gate = replica.counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=2))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    watching = asyncio.create_task(watched(replica, run, 5000))
    gate.set()
    assert (await watching)[-1:] in ([], [5]), "it says nothing, or the end"


async def test_when_the_run_is_deleted_before_its_end_was_seen(replica: Replica, start_replica: StartReplica) -> None:
    elsewhere = await start_replica()
    gate = replica.counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=2))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    watching = asyncio.create_task(watched(elsewhere, run, 0))
    async with replica.pool.connection() as connection, connection.transaction():
        # The watcher at another replica sees the end only together with the run's removal.
        await connection.execute("DELETE FROM platform.runs WHERE run_id = %s", [run.run_id])
    with pytest.raises(RunNotFound):
        await watching
    gate.set()


@pytest.mark.parametrize("page", [1, 2, 5])
async def test_when_the_last_event_fills_a_page(
    replica: Replica, done: RunRecord, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(events, "PAGE", page)
    assert await watched(replica, done, 0) == [1, 2, 3, 4, 5]


async def test_when_it_begins_at_a_replica_that_has_drained(start_replica: StartReplica) -> None:
    replica = await start_replica(max_concurrent_runs=0)
    run, _ = await replica.engine.create(new_run())
    await replica.engine.drain()
    with pytest.raises(Draining):
        await watched(replica, run, 0)
