"""Checkpoints are in the order in which they were written, whatever the clocks of those who wrote them said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import UUID

from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.retention import Pruner, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from tests.integration.runtime.conftest import new_run

Pool = PlatformPool
# What the clocks of the replicas said that wrote one checkpoint after another.
CLOCKS = (timedelta(seconds=4), timedelta(seconds=-4), timedelta(seconds=0))
_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


def id_at(moment: datetime) -> str:
    """A UUID version 6, as LangGraph gives checkpoints, made at a moment."""
    ticks = int((moment - _GREGORIAN).total_seconds() * 10_000_000)
    value = ((ticks >> 12) & 0xFFFFFFFFFFFF) << 80 | (ticks & 0xFFF) << 64 | 0x8000_0000_0000_0001
    return str(UUID(int=value, version=6))


@pytest.fixture
def ids() -> list[str]:
    """Checkpoint ids in the order in which they are written; the first is the greatest."""
    now = datetime.now(UTC)
    made = [id_at(now + shift + timedelta(milliseconds=n)) for n, shift in enumerate(CLOCKS)]
    assert made[0] == max(made)
    return made


def counted(checkpoint_id: str, count: int) -> Checkpoint:
    """A checkpoint whose state is a number."""
    return {
        **empty_checkpoint(),
        "id": checkpoint_id,
        "channel_values": {"count": count},
        "channel_versions": {"count": f"{count:010}.1"},
    }


async def written(pool: Pool, thread_id: str, ids: list[str]) -> RunSaver:
    """Writes one checkpoint after another; returns a saver that has written none of them."""
    saver = RunSaver(pool, make_serde())
    place: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for count, checkpoint_id in enumerate(ids, start=1):
        checkpoint = counted(checkpoint_id, count)
        place = await saver.aput(place, checkpoint, {"step": count}, checkpoint["channel_versions"])
    return RunSaver(pool, make_serde())


def thread(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    chosen = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **chosen}}


async def listed(saver: RunSaver, thread_id: str, **options: Any) -> list[str]:
    return [found.checkpoint["id"] async for found in saver.alist(thread(thread_id), **options)]


async def test_the_latest_is_the_one_written_last(platform_pool: Pool, ids: list[str]) -> None:
    saver = await written(platform_pool, "talk", ids)
    latest = await saver.aget_tuple(thread("talk"))
    assert latest is not None
    assert (latest.checkpoint["id"], latest.checkpoint["channel_values"]) == (ids[-1], {"count": 3})


async def test_a_list_goes_from_the_last_to_the_first(platform_pool: Pool, ids: list[str]) -> None:
    saver = await written(platform_pool, "talk", ids)
    assert await listed(saver, "talk") == ids[::-1]
    assert await listed(saver, "talk", limit=2) == [ids[2], ids[1]]
    assert await listed(saver, "talk", before=thread("talk", ids[2])) == [ids[1], ids[0]]
    assert await listed(saver, "talk", before=thread("talk", ids[0])) == []


async def test_pruning_keeps_the_one_written_last(platform_pool: Pool, ids: list[str]) -> None:
    saver = await written(platform_pool, "talk", ids)
    await saver.aprune(["talk"])
    assert await listed(saver, "talk") == [ids[-1]]
    latest = await saver.aget_tuple(thread("talk"))
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"count": 3}


async def test_retention_says_and_keeps_what_was_written_last(
    platform_pool: Pool, first: RunStore, ids: list[str]
) -> None:
    run, _ = await first.create(new_run(), claim=False)
    await written(platform_pool, run.run_id, ids)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET state = 'SUCCEEDED', ended_at = now() - interval '1 hour'")
    pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {"default": RetentionPolicy()})
    [due] = await pruner.due()
    assert (due.kind, due.row_count) == (RetainedData.HISTORY, 2)
    batch = await pruner.prune()
    assert batch is not None
    assert [(removal.kind, removal.row_count) for removal in batch.removals] == [(RetainedData.HISTORY, 2)]
    assert await listed(RunSaver(platform_pool, make_serde()), run.run_id) == [ids[-1]]


async def test_what_was_there_before_stays_readable_and_comes_first(platform_pool: Pool, ids: list[str]) -> None:
    before = sorted(ids)
    saver = await written(platform_pool, "talk", before)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.checkpoints SET ordinal = 0")  # as the migration leaves it
    assert await listed(saver, "talk") == before[::-1]
    # The replica that goes on has a clock that is behind all of that.
    behind = id_at(datetime.now(UTC) - timedelta(minutes=1))
    await saver.aget_tuple(thread("talk"))
    checkpoint = counted(behind, 4)
    await saver.aput(thread("talk", before[-1]), checkpoint, {"step": 4}, checkpoint["channel_versions"])
    assert await listed(saver, "talk") == [behind, *before[::-1]]
    latest = await RunSaver(platform_pool, make_serde()).aget_tuple(thread("talk"))
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"count": 4}


async def test_what_the_last_release_writes_is_in_order_too(platform_pool: Pool, ids: list[str]) -> None:
    saver = await written(platform_pool, "talk", ids[:1])
    async with platform_pool.connection() as connection:
        for count, checkpoint_id in enumerate(ids[1:], start=2):
            await connection.execute(
                """INSERT INTO public.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body,
                        changes, metadata)
                    SELECT 'other', checkpoint_ns, %s, %s, body, changes, metadata FROM public.checkpoints
                    WHERE thread_id = 'talk'
                    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET body = excluded.body""",
                [checkpoint_id, ids[count - 2]],
            )
        cursor = await connection.execute(
            "SELECT checkpoint_id, ordinal > 0 FROM platform.checkpoints ORDER BY ordinal"
        )
        assert await cursor.fetchall() == [(checkpoint_id, True) for checkpoint_id in ids]
    assert await listed(saver, "talk") == ids[:1]
