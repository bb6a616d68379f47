"""Retention removes what is due, in stages, beside live runs, and keeps what the policy keeps."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import pytest
from prometheus_client import REGISTRY

from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.retention import Pruner, Removal, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.serde import make_serde
from tests.fixtures.replica import Replica, answer_of
from tests.integration.runtime.conftest import StartReplica, ended, new_run

POLICY = RetentionPolicy(history_minutes=10, checkpoint_days=10, event_days=20, run_days=30, decision_days=40)
TABLES = ("checkpoints", "checkpoint_writes", "run_events", "runs", "decisions", "threads")
Pool = PlatformPool
UNREADABLE = "signalbox_retention_unreadable_total"


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
def pruner(platform_pool: Pool) -> Pruner:
    return Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {"default": POLICY})


async def finished(replica: Replica, **changes: Any) -> RunRecord:
    """A run that has counted to the end."""
    run, _ = await replica.engine.create(new_run(**changes))
    return await asyncio.wait_for(ended(replica, run), 60)


async def rows(pool: Pool) -> dict[str, int]:
    """Rows by table."""
    async with pool.connection() as connection:
        counted = {}
        for table in TABLES:
            cursor = await connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
            counted[table] = (await cursor.fetchone() or (0,))[0]
        return counted


async def age(pool: Pool, run: RunRecord, interval: str) -> None:
    """Moves the end of a run into the past."""
    async with pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET ended_at = now() - %s::interval WHERE run_id = %s", [interval, run.run_id]
        )


def sums(removals: list[Removal]) -> dict[RetainedData, int]:
    """Rows by kind."""
    counted = Counter[RetainedData]()
    for removal in removals:
        counted[removal.kind] += removal.row_count
    return dict(counted)


async def everything(pruner: Pruner) -> list[Removal]:
    """Prunes batch by batch until nothing is due."""
    removals: list[Removal] = []
    while batch := await pruner.prune():
        removals += batch.removals
        if not batch.more:
            break
    return removals


async def test_stage_by_stage_an_ended_run_loses_what_the_policy_says(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    run = await finished(replica, thread_id="talk")
    whole = await rows(platform_pool)
    assert whole["checkpoints"] > 3
    assert await everything(pruner) == []
    assert await pruner.due() == []

    await age(platform_pool, run, "11 minutes")
    due = sums(await pruner.due())
    removed = sums(await everything(pruner))
    assert due == removed == {RetainedData.HISTORY: whole["checkpoints"] - 1 + whole["checkpoint_writes"]}
    left = await rows(platform_pool)
    assert (left["checkpoints"], left["run_events"]) == (1, whole["run_events"])
    last = await CheckpointHistory(platform_pool, make_serde()).load(run.run_id, "", None)
    assert last is not None
    assert last.checkpoint["channel_values"]["counts"] == [1, 2, 3]
    assert await everything(pruner) == []

    await age(platform_pool, run, "11 days")
    assert sums(await everything(pruner)) == {RetainedData.CHECKPOINTS: 1}
    found = await replica.store.get(run.run_id, run.caller)
    assert (answer_of(found.output), (await rows(platform_pool))["decisions"]) == ("1 2 3", whole["decisions"])

    await age(platform_pool, run, "21 days")
    assert sums(await everything(pruner)) == {RetainedData.EVENTS: whole["run_events"] - 1}
    events = [event async for event in replica.engine.watch(run, 0)]
    assert [event.kind for event in events] == ["run_ended"]

    await age(platform_pool, run, "31 days")
    assert sums(await everything(pruner)) == {RetainedData.EVENTS: 1, RetainedData.RUNS: 1}
    empty = dict.fromkeys(TABLES, 0)
    assert await rows(platform_pool) == {**empty, "decisions": whole["decisions"]}


async def test_a_batch_tells_how_overdue_what_it_took_was(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    runs = [await finished(replica) for _ in range(2)]
    await age(platform_pool, runs[0], "2 hours")
    await age(platform_pool, runs[1], "40 minutes")
    await pruner.prune()
    overdue_s = REGISTRY.get_sample_value("signalbox_retention_lag_seconds")
    assert overdue_s is not None
    assert 110 * 60 <= overdue_s < 200 * 60, "two hours, less the ten minutes that its policy keeps its history for"
    await pruner.prune()
    assert REGISTRY.get_sample_value("signalbox_retention_lag_seconds") == 0


async def test_a_run_that_is_due_for_everything_goes_at_once(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    run = await finished(replica)
    whole = await rows(platform_pool)
    await age(platform_pool, run, "400 days")
    due, removed = await pruner.due(), await everything(pruner)
    assert due == removed
    checkpoints = whole["checkpoints"] + whole["checkpoint_writes"]
    assert sums(removed) == {
        RetainedData.CHECKPOINTS: checkpoints,
        RetainedData.EVENTS: whole["run_events"],
        RetainedData.RUNS: 1,
    }
    assert all(removal.size_bytes > 0 and removal.agent == "counting" for removal in removed)


async def test_what_was_recorded_of_a_run_counts_with_it(replica: Replica, pruner: Pruner, platform_pool: Pool) -> None:
    run = await finished(replica, recorded=True)
    async with platform_pool.connection() as connection:
        await connection.execute(query("put_answers"), {"run_id": run.run_id, "answers": [os.urandom(100_000)] * 2})
        await connection.execute(
            "INSERT INTO platform.effects (run_id, operation, name, epoch, result) VALUES (%s, 'send', 'send', 1, %s)",
            [run.run_id, os.urandom(50_000)],
        )
    await pruner.measure()
    stored = REGISTRY.get_sample_value("signalbox_stored_bytes", {"table": "recorded_answers"})
    assert stored is not None
    assert stored > 200_000
    effects = REGISTRY.get_sample_value("signalbox_stored_bytes", {"table": "effects"})
    assert effects is not None
    assert effects > 50_000
    await age(platform_pool, run, "400 days")
    due, removed = await pruner.due(), await everything(pruner)
    assert due == removed
    [size_bytes] = [removal.size_bytes for removal in removed if removal.kind is RetainedData.RUNS]
    assert 250_000 < size_bytes < 260_000


async def test_decisions_go_by_their_own_age_but_never_those_of_a_run_under_way(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    old = "00000000-0000-7000-8000-000000000001"
    run = await finished(replica)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.decisions SET run_id = %s WHERE run_id = %s", [old, run.run_id])
        await connection.execute("DELETE FROM platform.run_events")
        await connection.execute(
            "UPDATE platform.runs SET run_id = %s, state = 'AWAITING_INPUT', ended_at = NULL WHERE run_id = %s",
            [old, run.run_id],
        )
        assert await everything(pruner) == await pruner.due() == []
        ended = "UPDATE platform.runs SET state = 'SUCCEEDED', ended_at = now() - %s::interval WHERE run_id = %s"
        await connection.execute(ended, [f"{POLICY.run_days - 1} days", old])
        due = sums(await pruner.due())
        assert due == sums(await everything(pruner))
        assert RetainedData.DECISIONS not in due, "their run has not ended for as long"
        await connection.execute(ended, [f"{POLICY.decision_days + 1} days", old])
    due = sums(await pruner.due())
    assert due == sums(await everything(pruner))
    assert due[RetainedData.DECISIONS] == 3


async def test_each_agent_has_its_own_policy(replica: Replica, platform_pool: Pool) -> None:
    run = await finished(replica)
    await age(platform_pool, run, "5 days")
    history = CheckpointHistory(platform_pool, make_serde())
    short = RetentionPolicy(checkpoint_days=1, event_days=1, run_days=1, decision_days=1)
    others_only = Pruner(platform_pool, history, {"default": short, "counting": POLICY})
    assert set(sums(await others_only.due())) == set(sums(await everything(others_only))) == {RetainedData.HISTORY}
    mine = Pruner(platform_pool, history, {"counting": short})
    assert set(sums(await everything(mine))) == {RetainedData.CHECKPOINTS, RetainedData.EVENTS, RetainedData.RUNS}


async def test_batches_are_small_and_the_next_goes_on(replica: Replica, platform_pool: Pool) -> None:
    runs = [await finished(replica) for _ in range(5)]
    for run in runs:
        await age(platform_pool, run, "1 hour")
    pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {}, batch=2)
    batches = []
    while True:
        batch = await pruner.prune()
        assert batch is not None
        batches.append(batch)
        if not batch.more:
            break
    assert [bool(batch.removals) for batch in batches] == [True, True, True]
    assert (await rows(platform_pool))["checkpoints"] == 5


async def test_a_batch_that_several_agents_fill_together_is_not_the_last(platform_pool: Pool) -> None:
    async with platform_pool.connection() as connection:
        await connection.execute(
            "INSERT INTO platform.store SELECT 'agent', 'agent ' || n, '', '', 'key', '', '27', NULL, "
            "now(), now(), now() FROM generate_series(1, 12) AS n"
        )
    pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {}, batch=1)
    assert sums(await everything(pruner)) == {RetainedData.STORE: 12}


@pytest.mark.parametrize("batch", [1, 2, 100])
async def test_what_is_due_is_what_goes_however_small_the_batches(
    replica: Replica, platform_pool: Pool, batch: int
) -> None:
    for number, days in enumerate([0.5, 5, 12, 15, 22, 25, 35, 40]):
        await age(platform_pool, await finished(replica, until=1 + number % 3), f"{days} days")
    pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {"default": POLICY}, batch=batch)
    due = sums(await pruner.due())
    assert due.keys() == {RetainedData.HISTORY, RetainedData.CHECKPOINTS, RetainedData.EVENTS, RetainedData.RUNS}
    assert sums(await everything(pruner)) == due
    assert await pruner.due() == []


async def test_live_runs_and_rows_that_others_hold_are_left_alone(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    gate = replica.counting.hold(5)
    live, _ = await replica.engine.create(new_run(until=6))
    await asyncio.wait_for(replica.counting.reached.wait(), 60)
    held, due = await finished(replica), await finished(replica)
    for run in (held, due):
        await age(platform_pool, run, "1 hour")
    async with platform_pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM platform.runs WHERE run_id = %s FOR UPDATE", [held.run_id])
        assert RetainedData.HISTORY in sums(await everything(pruner))
    kept = sums(await pruner.due())
    assert kept[RetainedData.HISTORY] > 0
    assert sums(await everything(pruner)) == kept
    gate.set()
    after = await asyncio.wait_for(ended(replica, live), 60)
    assert (after.state, answer_of(after.output)) == (RunState.SUCCEEDED, "1 2 3 4 5 6")


async def test_a_thread_is_kept_when_a_run_is_created_in_it_while_its_last_one_goes(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    run = await finished(replica, thread_id="talk")
    await age(platform_pool, run, "31 days")
    async with platform_pool.connection() as connection, platform_pool.connection() as observer:
        async with connection.transaction():
            await connection.execute(query("lock_thread"), {"subject": run.caller.subject, "thread_id": "talk"})
            await replica.store.create_pending(connection, new_run(thread_id="talk"))
            pruning = asyncio.create_task(everything(pruner))
            async with asyncio.timeout(60):
                while not pruning.done() and not await waiting(observer):  # noqa: ASYNC110 - in the database
                    await asyncio.sleep(0.01)
        assert RetainedData.RUNS in sums(await pruning)
    assert (await rows(platform_pool))["threads"] == 1


async def waiting(observer: Any) -> bool:
    """Whether some statement waits for a lock."""
    cursor = await observer.execute(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return await cursor.fetchone() is not None


async def test_what_is_read_while_it_is_pruned_is_whole(
    replica: Replica, pruner: Pruner, platform_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await finished(replica, until=6)
    await age(platform_pool, run, "11 minutes")
    history = CheckpointHistory(platform_pool, make_serde())
    read_rows = history._rows

    async def prune_first(*arguments: Any) -> Any:
        await everything(pruner)
        return await read_rows(*arguments)

    monkeypatch.setattr(history, "_rows", prune_first)
    config: Any = {"configurable": {"thread_id": run.run_id, "checkpoint_ns": ""}}
    newest_first = history.select(config, metadata_filter=None, before=None, limit=None)
    found = [checkpoint.checkpoint["channel_values"].get("counts") or [] async for checkpoint in newest_first]
    assert (await rows(platform_pool))["checkpoints"] == 1
    assert [len(counts) for counts in found] == [6, 6, 5, 4, 3, 2, 1, 0, 0]


async def test_one_replica_prunes_at_a_time(pruner: Pruner, platform_pool: Pool) -> None:
    async with platform_pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('signalbox retention', 2))")
        assert await pruner.prune() is None
        waiting = asyncio.create_task(pruner.prune(wait=True))
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
    assert await asyncio.wait_for(waiting, 60) is not None


async def test_one_unreadable_checkpoint_keeps_no_other_from_going(
    replica: Replica, pruner: Pruner, platform_pool: Pool
) -> None:
    broken, whole = await finished(replica), await finished(replica)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE checkpoints SET changes = 'nonsense' WHERE thread_id = %s", [broken.run_id])
    for run in (broken, whole):
        await age(platform_pool, run, "11 minutes")
    before = REGISTRY.get_sample_value(UNREADABLE, {"agent": "counting"}) or 0.0

    removals = await everything(pruner)

    assert sums(removals).keys() == {RetainedData.HISTORY}
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT thread_id, count(*) FROM checkpoints GROUP BY thread_id")
        left = dict(await cursor.fetchall())
    assert left[whole.run_id] == 1
    assert left[broken.run_id] > 1
    assert REGISTRY.get_sample_value(UNREADABLE, {"agent": "counting"}) == before + 1
    assert await everything(pruner) == []  # it is looked at once, and not in every round
    await age(platform_pool, broken, "11 days")
    await everything(pruner)
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT thread_id FROM checkpoints")
        assert await cursor.fetchall() == [(whole.run_id,)]
