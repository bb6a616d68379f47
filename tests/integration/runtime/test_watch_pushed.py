"""Who watches is told: at once where the run is executed, soon elsewhere; and nobody asks while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from services.runtime.engine import watches
from services.runtime.engine.events import Event, Watcher
from services.runtime.engine.records import RunRecord, RunState
from tests.fixtures.replica import Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 120.0
LONG_S = 3600.0


@pytest.fixture(autouse=True)
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the fallback off for longer than any test takes: what arrives was told."""
    monkeypatch.setattr(watches, "ASK_INTERVAL_S", LONG_S)


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)


async def _registered(replica: Replica) -> set[str]:
    async with replica.pools.upkeep.connection() as connection:
        cursor = await connection.execute("SELECT run_id::text FROM platform.watches")
        return {run_id for (run_id,) in await cursor.fetchall()}


async def _until_registered(replica: Replica, expected: set[str]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await _registered(replica) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _events(replica: Replica, run: RunRecord, after: int = 0) -> list[Event]:
    async with asyncio.timeout(TIMEOUT_S):
        return [event async for event in replica.engine.watch(run, after)]


async def test_a_watcher_elsewhere_is_told_of_every_event(start_replica: StartReplica) -> None:
    here, elsewhere = await start_replica(), await start_replica(max_concurrent_runs=0)
    gates = [here.counting.hold(number) for number in (2, 3)]
    run, _ = await here.engine.create(new_run(until=3))
    watching = asyncio.create_task(_events(elsewhere, run))
    await _until_registered(elsewhere, {run.run_id})
    for gate in gates:
        await asyncio.wait_for(here.counting.reached.wait(), TIMEOUT_S)
        here.counting.reached.clear()
        gate.set()
    events = await watching
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].kind == "run_ended"
    await _until_registered(elsewhere, set())


async def test_a_run_that_waits_is_watched_until_it_ends_here_or_elsewhere(start_replica: StartReplica) -> None:
    watcher = await start_replica(max_concurrent_runs=0)
    runs = [(await watcher.engine.create(new_run(until=2)))[0] for _ in range(3)]
    assert {run.state for run in runs} == {RunState.PENDING}
    watching = [asyncio.create_task(_events(watcher, run)) for run in runs]
    await _until_registered(watcher, {run.run_id for run in runs})
    await watcher.store.cancel(runs[0].run_id, runs[0].caller)
    assert (await watching[0])[-1].kind == "run_ended"
    await start_replica()
    for events in await asyncio.gather(*watching[1:]):
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    await _until_registered(watcher, set())


async def test_what_is_executed_here_is_nobody_else_s_to_tell(start_replica: StartReplica) -> None:
    replica = await start_replica()
    gate = replica.counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=2))
    watching = asyncio.create_task(_events(replica, run))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    assert await _registered(replica) == set()
    gate.set()
    assert (await watching)[-1].kind == "run_ended"


async def test_a_run_that_goes_elsewhere_is_watched_on(start_replica: StartReplica) -> None:
    here = await start_replica()
    gate = here.counting.hold(2)
    run, _ = await here.engine.create(new_run(until=3))
    watching = asyncio.create_task(_events(here, run))
    await asyncio.wait_for(here.counting.reached.wait(), TIMEOUT_S)
    async with here.pools.upkeep.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET owner = 'other', epoch = epoch + 1, lease_expires_at = now() + interval '1 h'"
        )
        # Its lock is held by nobody: it is taken over, and whoever claims it next goes on.
    elsewhere = await start_replica()
    gate.set()
    events = await watching
    done = await ended(elsewhere, run)
    assert [event.sequence for event in events] == list(range(1, done.event_count + 1))


async def test_a_waiting_stream_asks_for_nothing(start_replica: StartReplica, platform_dsn: str) -> None:
    watcher = await start_replica(max_concurrent_runs=0, sweep_interval_s=60.0)
    runs = [(await watcher.engine.create(new_run()))[0] for _ in range(50)]
    reads = 0
    read = watcher.engine._shared.events._read

    async def counted(run_id: str, watcher: Watcher) -> list[Event]:
        nonlocal reads
        reads += 1
        return await read(run_id, watcher)

    watcher.engine._shared.events._read = counted  # type: ignore[method-assign]
    watching = [asyncio.create_task(_events(watcher, run)) for run in runs]
    await _until_registered(watcher, {run.run_id for run in runs})
    await _until(lambda: reads == len(runs))
    async with await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as other:
        await other.execute("UPDATE platform.runs SET wall_time_s = 1")  # no event: nobody is told
        await other.execute(
            "WITH ended AS (UPDATE platform.runs SET state = 'CANCELLED', ended_at = now(), event_count = 1"
            " WHERE run_id = %s RETURNING run_id)"
            " INSERT INTO platform.run_events (run_id, sequence, kind) SELECT run_id, 1, 'run_ended' FROM ended",
            [runs[7].run_id],
        )
    assert [event.kind for event in await watching[7]] == ["run_ended"]
    assert reads == len(runs) + 1, "only the one that was told read, and once"
    for task in watching:
        task.cancel()


async def test_what_the_release_before_writes_is_told_too(start_replica: StartReplica, platform_dsn: str) -> None:
    watcher = await start_replica(max_concurrent_runs=0)
    run, _ = await watcher.engine.create(new_run())
    watching = asyncio.create_task(_events(watcher, run))
    await _until_registered(watcher, {run.run_id})
    async with await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as other:
        await other.execute(
            "WITH ended AS (UPDATE public.runs SET state = 'CANCELLED', ended_at = now(), event_count = event_count + 1"
            " RETURNING run_id, event_count)"
            " INSERT INTO public.run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM ended"
        )
    assert [event.kind for event in await watching] == ["run_ended"]


async def test_a_replica_whose_connection_broke_hears_what_it_missed(
    start_replica: StartReplica, platform_dsn: str
) -> None:
    watcher = await start_replica(max_concurrent_runs=0)
    run, _ = await watcher.engine.create(new_run())
    watching = asyncio.create_task(_events(watcher, run))
    await _until_registered(watcher, {run.run_id})
    async with await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as other:
        await other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'signalbox-runtime-liveness' AND datname = current_database()"
        )
        await other.execute("TRUNCATE platform.watches")  # as after a crash of the server
        await watcher.store.cancel(run.run_id, run.caller)
    assert [event.kind for event in await watching] == ["run_ended"]


async def test_what_nobody_told_of_is_found_by_asking(
    start_replica: StartReplica, platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "ASK_INTERVAL_S", 0.2)
    async with await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as other:
        await other.execute("ALTER TABLE platform.runs DISABLE TRIGGER tell_watchers")
    here, elsewhere = await start_replica(), await start_replica(max_concurrent_runs=0)
    gate = here.counting.hold(2)
    run, _ = await here.engine.create(new_run(until=3))
    watching = asyncio.create_task(_events(elsewhere, run))
    await _until_registered(elsewhere, {run.run_id})
    gate.set()
    events = await watching
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def test_the_watches_of_a_replica_that_is_gone_are_forgotten(start_replica: StartReplica) -> None:
    replica = await start_replica()
    async with replica.pools.upkeep.connection() as connection:
        await connection.execute("INSERT INTO platform.watches VALUES (gen_random_uuid(), 'gone')")
    await replica.upkeep.forget_gone()
    assert await _registered(replica) == set()
