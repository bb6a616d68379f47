"""Events and decisions lie in partitions by the week of their run: made ahead, dropped whole, never missed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.kit.identifiers import uuid7_floor
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.partitions import WEEK, week_of
from services.runtime.engine.retention import Pruner, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.serde import make_serde
from tests.fixtures.replica import Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run

Pool = PlatformPool
POLICY = RetentionPolicy(history_minutes=10, checkpoint_days=10, event_days=20, run_days=30, decision_days=40)
_PARTITION_OF = "SELECT tableoid::regclass::text FROM platform.{} WHERE run_id = %s"


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
def pruner(platform_pool: Pool) -> Pruner:
    return pruner_of(platform_pool, {"default": POLICY})


def pruner_of(pool: Pool, policies: dict[str, RetentionPolicy]) -> Pruner:
    return Pruner(pool, CheckpointHistory(pool, make_serde()), policies)


async def partitions(pool: Pool, table: str) -> list[str]:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree(%s::regclass) WHERE isleaf ORDER BY 1",
            [f"platform.{table}"],
        )
        return [name.removeprefix("platform.") for (name,) in await cursor.fetchall()]


async def decided_in(pool: Pool, moment: datetime, replica: Replica, number: int = 1, agent: str = "") -> str:
    """A run that has ended, with its rows moved to where a run of that moment would have them; returns its id."""
    run, _ = await replica.engine.create(new_run())
    await asyncio.wait_for(ended(replica, run), 60)
    moved = uuid7_floor(moment)[:-4] + f"{number:04}"
    async with pool.connection() as connection:
        for table in ("run_events", "decisions"):
            await connection.execute(
                f"UPDATE platform.{table} SET run_id = %s WHERE run_id = %s",  # noqa: S608
                [moved, run.run_id],
            )
        if agent:
            await connection.execute("UPDATE platform.decisions SET agent = %s WHERE run_id = %s", [agent, moved])
        await connection.execute(
            "UPDATE platform.runs SET run_id = %s, ended_at = %s WHERE run_id = %s", [moved, moment, run.run_id]
        )
    return moved


async def everything(pruner: Pruner) -> dict[RetainedData, int]:
    removed: dict[RetainedData, int] = {}
    while batch := await pruner.prune():
        for removal in batch.removals:
            removed[removal.kind] = removed.get(removal.kind, 0) + removal.row_count
        if not batch.more:
            break
    return removed


async def test_partitions_are_made_for_the_weeks_ahead_and_only_once(pruner: Pruner, platform_pool: Pool) -> None:
    before = await partitions(platform_pool, "decisions")
    await pruner.make_partitions()
    made = await partitions(platform_pool, "decisions")
    assert set(before) == {"decisions_first", "decisions_other"}
    assert f"decisions_{week_of(datetime.now(UTC)) + 8 * WEEK:%Y%m%d}" in made
    await pruner.make_partitions()
    assert await partitions(platform_pool, "decisions") == made


async def test_what_came_too_early_for_its_partition_is_moved_into_it(
    pruner: Pruner, platform_pool: Pool, replica: Replica
) -> None:
    later = datetime.now(UTC) + 5 * WEEK
    run_id = await decided_in(platform_pool, later, replica)
    async with platform_pool.connection() as connection:

        async def lies_in(table: str) -> set[str]:
            cursor = await connection.execute(_PARTITION_OF.format(table), [run_id])
            return {name for (name,) in await cursor.fetchall()}

        assert await lies_in("decisions") == {"platform.decisions_other"}
        await pruner.make_partitions()
        week = f"{week_of(later):%Y%m%d}"
        assert await lies_in("decisions") == {f"platform.decisions_{week}"}
        assert await lies_in("run_events") == {f"platform.run_events_{week}"}


async def test_a_reader_that_keeps_a_table_busy_is_not_waited_for(pruner: Pruner, platform_pool: Pool) -> None:
    async with platform_pool.connection() as reader, reader.transaction():
        await reader.execute("SELECT count(*) FROM platform.decisions")
        await pruner.make_partitions()
    assert await partitions(platform_pool, "decisions") == ["decisions_first", "decisions_other"]
    await pruner.make_partitions()
    assert len(await partitions(platform_pool, "decisions")) > 2


async def test_a_week_of_which_nothing_is_kept_goes_whole(
    pruner: Pruner, platform_pool: Pool, replica: Replica
) -> None:
    first = await decided_in(platform_pool, datetime.now(UTC) - timedelta(days=60), replica)
    kept = await decided_in(platform_pool, datetime.now(UTC), replica)
    await split_first(platform_pool)
    due = [removal for removal in await pruner.due() if removal.kind is RetainedData.DECISIONS]
    removed = await everything(pruner)
    assert removed[RetainedData.DECISIONS] == sum(removal.row_count for removal in due) == 3
    assert "decisions_old" not in await partitions(platform_pool, "decisions")
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT DISTINCT run_id::text FROM platform.decisions")
        assert await cursor.fetchall() == [(kept,)] != [(first,)]


async def test_a_week_stays_while_a_run_of_it_is_under_way_or_an_agent_keeps_its_decisions(
    platform_pool: Pool, replica: Replica
) -> None:
    old = datetime.now(UTC) - timedelta(days=60)
    waiting = await decided_in(platform_pool, old, replica, 1)
    await decided_in(platform_pool, old, replica, 2, agent="other")
    await decided_in(platform_pool, old, replica, 3)
    async with platform_pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET state = 'AWAITING_INPUT', ended_at = NULL WHERE run_id = %s", [waiting]
        )
    await split_first(platform_pool)
    other_keeps = {"default": POLICY, "other": RetentionPolicy(decision_days=0)}
    assert (await everything(pruner_of(platform_pool, other_keeps)))[RetainedData.DECISIONS] == 3
    assert (await everything(pruner_of(platform_pool, {"default": POLICY})))[RetainedData.DECISIONS] == 3
    assert "decisions_old" in await partitions(platform_pool, "decisions")


async def test_the_events_of_a_deleted_run_go_with_it(platform_pool: Pool, replica: Replica) -> None:
    run_id = await decided_in(platform_pool, datetime.now(UTC), replica)
    async with platform_pool.connection() as connection:
        # As the release before does it, through its view.
        await connection.execute("DELETE FROM public.runs WHERE run_id = %s", [run_id])
        cursor = await connection.execute("SELECT count(*) FROM platform.run_events WHERE run_id = %s", [run_id])
        assert await cursor.fetchone() == (0,)


async def test_steps_are_taken_while_the_rest_of_a_batch_is_removed(
    platform_pool: Pool, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever drops a partition has the whole table, and may keep it for a moment only."""
    history = CheckpointHistory(platform_pool, make_serde())
    pruner = Pruner(platform_pool, history, {"default": POLICY})
    await decided_in(platform_pool, datetime.now(UTC) - timedelta(days=60), replica)
    recent, _ = await replica.engine.create(new_run())
    await asyncio.wait_for(ended(replica, recent), 60)
    await split_first(platform_pool)
    async with platform_pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET ended_at = now() - interval '1 hour' WHERE run_id = %s", [recent.run_id]
        )
    written: list[list[str]] = []

    async def write(*_: Any) -> None:
        async with platform_pool.connection() as connection, connection.transaction():
            for table in ("decisions", "run_events"):
                await connection.execute(f"LOCK TABLE platform.{table} IN ROW EXCLUSIVE MODE NOWAIT")
        written.append(await partitions(platform_pool, "decisions"))

    monkeypatch.setattr(history, "prune", write)
    await everything(pruner)
    assert written
    assert all("decisions_old" not in found for found in written)


async def split_first(pool: Pool) -> None:
    """Gives the rows of long past weeks a partition of their own, as they would have had."""
    bound = uuid7_floor(week_of(datetime.now(UTC) - timedelta(days=50)))
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'platform.decisions_first'::regclass"
        )
        [[until]] = await cursor.fetchall()
        upper = until.partition("TO (")[2].strip("')")
        made = "CREATE TABLE platform.decisions_{} PARTITION OF platform.decisions FOR VALUES FROM ({}) TO ({})"
        for statement in (
            "ALTER TABLE platform.decisions DETACH PARTITION platform.decisions_first",
            made.format("old", "MINVALUE", f"'{bound}'"),
            made.format("new", f"'{bound}'", f"'{upper}'"),
            "INSERT INTO platform.decisions SELECT * FROM platform.decisions_first",
        ):
            await connection.execute(statement)
