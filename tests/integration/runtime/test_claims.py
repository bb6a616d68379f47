"""What a replica has claimed it knows, however long the answer takes; and only deaths are held against a run."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.engine import Engine
from services.runtime.engine.liveness import LivenessLock
from services.runtime.engine.records import Ending, NewRun, RunRecord, RunState
from services.runtime.engine.upkeep import CLAIM_LIMIT
from services.runtime.errors import ClaimLost
from tests.fixtures.replica import Counting, Replica
from tests.integration.runtime.conftest import AGENTS, OwnerStore, StartReplica, ended, new_run

TIMEOUT_S = 120.0


async def _rows(pool: AsyncConnectionPool[Any], statement: str, *parameters: Any) -> list[Any]:
    async with pool.connection() as connection:
        cursor = await connection.execute(statement.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []


async def _calls(replica: Replica, upkeep: str, count: int) -> None:
    """Waits until the replica has called a method of its upkeep so often from now on."""
    called, method = asyncio.Semaphore(0), getattr(replica.upkeep, upkeep)

    async def noted() -> Any:
        called.release()
        return await method()

    setattr(replica.upkeep, upkeep, noted)
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(count):
            await called.acquire()
    setattr(replica.upkeep, upkeep, method)


async def _sweeps(replica: Replica, count: int) -> None:
    """Waits until the replica has swept so often from now on."""
    await _calls(replica, "take_over", count)


async def _rounds(replica: Replica, count: int) -> None:
    """Waits until the replica has begun so many rounds from now on, whether there was anything to sweep or not."""
    await _calls(replica, "due", count)


@pytest.mark.parametrize("how", ["created", "claimed"])
async def test_a_claim_whose_answer_takes_long_is_no_stray(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    replica = await start_replica()
    answered, written = asyncio.Event(), asyncio.Event()
    create, claim = replica.store.create, replica.upkeep.claim_pending

    async def slow_create(new: NewRun, **options: Any) -> tuple[RunRecord, bool]:
        made = await create(new, **options)
        written.set()
        await answered.wait()
        return made

    async def slow_claim(*args: Any) -> list[RunRecord]:
        if claimed := await claim(*args):
            written.set()
            await answered.wait()
        return claimed

    async with asyncio.timeout(TIMEOUT_S):
        if how == "created":
            monkeypatch.setattr(replica.store, "create", slow_create)
            creating = asyncio.create_task(replica.engine.create(new_run(until=2)))
        else:
            monkeypatch.setattr(replica.upkeep, "claim_pending", slow_claim)
            creating = asyncio.create_task(create(new_run(until=2), claim=False))
        await written.wait()
        # As long ago as one likes: however time is told, the claim is very old.
        await _rows(
            replica.pool,
            "UPDATE platform.runs SET lease_expires_at = now() + interval '1 ms', started_at = now() - interval '1 h'",
        )
        await _sweeps(replica, 5)
        answered.set()
        run, _ = await creating
        done = await ended(replica, run)
    assert (done.state, done.epoch) == (RunState.SUCCEEDED, 1)


async def test_a_claim_whose_answer_never_came_is_let_go_of_at_once(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await start_replica()
    claim = replica.upkeep.claim_pending
    lost: list[str] = []

    async def lose(*args: Any) -> list[RunRecord]:
        claimed = await claim(*args)
        if claimed and not lost:
            lost.extend(run.run_id for run in claimed)
            raise OSError("the answer was lost")
        return claimed

    monkeypatch.setattr(replica.upkeep, "claim_pending", lose)
    run, _ = await replica.store.create(new_run(until=2), claim=False)
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)
    assert (done.state, done.epoch, lost) == (RunState.SUCCEEDED, 2, [run.run_id])


async def test_hand_overs_are_held_against_nobody(first: OwnerStore, second: OwnerStore) -> None:
    run, _ = await first.create(new_run(), claim=True)
    for number in range(30):
        await (first, second)[number % 2].release(run)
        [run] = await (second, first)[number % 2].upkeep.claim_pending(1, AGENTS)
    assert (run.epoch, run.idle_claims) == (31, 1)


async def test_what_was_claimed_since_is_its_new_holders_alone(first: OwnerStore, second: OwnerStore) -> None:
    lost, _ = await first.create(new_run(), claim=True)
    assert await first.release(lost)
    [held] = await second.upkeep.claim_pending(1, AGENTS)
    assert (lost.epoch, held.epoch) == (1, 2)
    # One that is of an earlier epoch, and one that only says that it is of this one.
    for stray in (lost, replace(lost, epoch=held.epoch)):
        assert await first.release(stray) is None
        with pytest.raises(ClaimLost):
            await first.end(stray, Ending(RunState.SUCCEEDED))
    assert (await first.get(held.run_id, held.caller)).state is RunState.RUNNING
    assert (await second.end(held, Ending(RunState.SUCCEEDED))).state is RunState.SUCCEEDED


async def test_a_replica_that_is_alive_keeps_its_runs_and_one_whose_lock_is_free_loses_them(
    start_replica: StartReplica, first: OwnerStore, second: OwnerStore
) -> None:
    counting = Counting()
    gate = counting.hold(1)
    alive = await start_replica(counting)
    kept, _ = await alive.engine.create(new_run(until=1))
    await asyncio.wait_for(counting.reached.wait(), TIMEOUT_S)
    # Its lease is not over, but nobody holds the lock of this owner.
    lost, _ = await first.create(new_run(agent="newer"), claim=True)
    await second.upkeep.take_over()
    assert (await second.get(lost.run_id, lost.caller)).state is RunState.PENDING
    assert (await second.get(kept.run_id, kept.caller)).state is RunState.RUNNING
    gate.set()
    assert (await ended(alive, kept)).epoch == 1


async def test_a_sweep_leaves_alone_what_its_own_replica_holds(
    platform_pool: AsyncConnectionPool[Any], first: OwnerStore, second: OwnerStore
) -> None:
    run, _ = await first.create(new_run(), claim=True)
    # Nobody holds its lock, as after a restart of Postgres, and its lease is over, as after a long one.
    await first.upkeep.renew_leases([])
    await _rows(platform_pool, "UPDATE platform.replicas SET lease_expires_at = now() - interval '1 s'")
    orphans = await first.upkeep.take_over()
    assert (orphans.found, orphans.freed) == (0, [])
    assert [freed.run_id for freed in (await second.upkeep.take_over()).freed] == [run.run_id]


async def test_nobody_counts_as_gone_before_the_database_has_been_back_for_a_while(
    start_replica: StartReplica, first: OwnerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = False
    monkeypatch.setattr(LivenessLock, "settled", property(lambda _: settled))
    replica = await start_replica()
    # Its owner's lock was lost with the database, and is not taken again yet.
    run, _ = await first.create(new_run(until=1), claim=True)
    async with asyncio.timeout(TIMEOUT_S):
        await _rounds(replica, 5)
        assert (await first.get(run.run_id, run.caller)).epoch == 1
        settled = True
        assert (await ended(replica, run)).epoch == 2


async def test_a_sweep_renews_a_lease_that_the_database_missed(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_self: Engine) -> None:
        """A renewal whose turn is not yet."""

    monkeypatch.setattr(Engine, "_lease_loop", never)
    replica = await start_replica()
    await _rows(replica.pool, "UPDATE platform.replicas SET lease_expires_at = now() - interval '1 s'")
    await _rounds(replica, 2)
    lapsed = "SELECT 1 FROM platform.replicas WHERE lease_expires_at < now()"
    assert await _rows(replica.pool, lapsed), "it is renewed in its time"
    monkeypatch.setattr(replica.engine, "_renewed_at", -math.inf)
    await _rounds(replica, 2)
    assert not await _rows(replica.pool, lapsed)


async def test_only_deaths_without_a_step_make_a_run_suspect(first: OwnerStore, second: OwnerStore) -> None:
    await first.create(new_run(), claim=False)
    for _ in range(3):
        assert await first.upkeep.claim_suspect(AGENTS, "01a20103-ace7-7608-b83d-5de6f3809c8b") is None
        [run] = await first.upkeep.claim_pending(1, AGENTS)
        await second.upkeep.take_over()  # its owner holds no liveness lock
    assert await first.upkeep.claim_pending(1, AGENTS) == []
    suspect = await first.upkeep.claim_suspect(AGENTS, "01a20103-ace7-7608-b83d-5de6f3809c8b")
    assert suspect
    assert suspect.run_id == run.run_id
    await second.upkeep.take_over()  # it died before it began
    assert await first.upkeep.give_up() == []
    suspect = await first.upkeep.claim_suspect(AGENTS, "01a20103-ace7-7608-b83d-5de6f3809c8b")
    assert suspect
    assert await first.upkeep.begin_alone(suspect)
    await first.release(suspect)  # drained
    assert await first.upkeep.give_up() == []
    suspect = await first.upkeep.claim_suspect(AGENTS, "01a20103-ace7-7608-b83d-5de6f3809c8b")
    assert suspect
    assert await first.upkeep.begin_alone(suspect)
    await second.upkeep.take_over()
    [given_up] = await first.upkeep.give_up()
    assert (given_up.state, given_up.stop_reason) == (RunState.FAILED, CLAIM_LIMIT)
    assert "without taking a step" in given_up.error


async def test_innocents_that_were_there_each_time_end_well_one_by_one(start_replica: StartReplica) -> None:
    replica = await start_replica()
    replica.counting.hold(1)
    innocents = [(await replica.store.create(new_run(agent="elsewhere", until=2), claim=False))[0] for _ in range(2)]
    async with asyncio.timeout(TIMEOUT_S):
        await _rows(replica.pool, "UPDATE platform.runs SET suspicion = 1, idle_claims = 3, agent = 'counting'")
        while not await _rows(replica.pool, "SELECT 1 FROM platform.runs WHERE suspicion = 2"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        newcomer, _ = await replica.engine.create(new_run(until=1))
        assert newcomer.state is RunState.PENDING, "nothing begins beside a suspect"
        await _sweeps(replica, 5)
        states = [state for (state,) in await _rows(replica.pool, "SELECT state FROM platform.runs")]
        assert sorted(states) == ["PENDING", "PENDING", "RUNNING"]
        replica.counting.gates.pop(1).set()
        done = [await ended(replica, run) for run in (*innocents, newcomer)]
    assert {run.state for run in done} == {RunState.SUCCEEDED}
    assert await _rows(replica.pool, "SELECT DISTINCT suspicion FROM platform.runs") == [(0,)]


async def test_a_suspect_waits_until_the_others_have_been_handed_over(start_replica: StartReplica) -> None:
    replica = await start_replica()
    gate = replica.counting.hold(2)
    neighbour, _ = await replica.engine.create(new_run(until=2))
    async with asyncio.timeout(TIMEOUT_S):
        await replica.counting.reached.wait()
        suspect, _ = await replica.store.create(new_run(agent="elsewhere", until=1), claim=False)
        await _rows(
            replica.pool,
            "UPDATE platform.runs SET suspicion = 1, idle_claims = 3, agent = 'counting' WHERE run_id = %s",
            suspect.run_id,
        )
        while not await _rows(replica.pool, "SELECT 1 FROM platform.runs WHERE suspicion = 1 AND state = 'RUNNING'"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await _sweeps(replica, 5)
        assert not [number for run_id, number in replica.counting.counted if run_id == suspect.run_id]
        gate.set()
        done = [await ended(replica, run) for run in (suspect, neighbour)]
    assert {run.state for run in done} == {RunState.SUCCEEDED}


async def test_a_suspect_that_has_not_begun_is_let_go_of_by_a_drain(start_replica: StartReplica) -> None:
    replica = await start_replica()
    replica.counting.hold(1)
    await replica.engine.create(new_run(until=1))
    suspect, _ = await replica.store.create(new_run(agent="elsewhere", until=1), claim=False)
    async with asyncio.timeout(TIMEOUT_S):
        await replica.counting.reached.wait()
        await _rows(
            replica.pool,
            "UPDATE platform.runs SET suspicion = 1, idle_claims = 3, agent = 'counting' WHERE run_id = %s",
            suspect.run_id,
        )
        while not await _rows(replica.pool, "SELECT 1 FROM platform.runs WHERE suspicion = 1 AND state = 'RUNNING'"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await replica.engine.drain()
        other = await start_replica(Counting())
        assert (await ended(other, suspect)).state is RunState.SUCCEEDED
