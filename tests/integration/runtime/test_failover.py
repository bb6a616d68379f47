"""A failover to a standby that had not got everything: an epoch is given twice, and one of its two owners can write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from psycopg import sql

from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from services.runtime.engine.claim import Claim
from services.runtime.engine.database import PlatformPool, open_pool
from services.runtime.engine.records import Ending, InputRequest, RunRecord, RunState
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.errors import ClaimLost
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.standby import Standby, standby_of
from tests.integration.runtime.conftest import AGENTS, OwnerStore, new_run

Pool = PlatformPool
DATABASE = "platform"
ASKED = InputRequest("question", "Go on?", ("yes",), datetime.now(UTC) + timedelta(hours=1))


@pytest.fixture
def primary() -> Iterator[EmbeddedPostgres]:
    """A server with a migrated platform database."""
    settings = {"synchronous_commit": "on"}
    with EmbeddedPostgres(durable=False, settings=settings, start_timeout_s=START_TIMEOUT_S) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        migrate(server.dsn(DATABASE))
        yield server


@pytest.fixture
def standby(primary: EmbeddedPostgres) -> Iterator[Standby]:
    """Its asynchronous standby."""
    with standby_of(primary) as following:
        yield following


def store(pool: Pool, owner: str) -> OwnerStore:
    return OwnerStore(pool, owner)


def saver(pool: Pool, run: RunRecord) -> RunSaver:
    return RunSaver(pool, make_serde(), claim=Claim(run.run_id, run.epoch, run.claim_id))


async def step(pool: Pool, run: RunRecord, number: int) -> None:
    """Takes a step of a run, as its owner."""
    checkpoint: Checkpoint = {
        **empty_checkpoint(),
        "channel_values": {"count": number},
        "channel_versions": {"count": f"{number:010}.1"},
    }
    place: RunnableConfig = {"configurable": {"thread_id": run.run_id, "checkpoint_ns": ""}}
    await saver(pool, run).aput(place, checkpoint, {"step": number}, checkpoint["channel_versions"])


async def write_ahead(pool: Pool, run: RunRecord) -> None:
    """Saves what a task waits for, as its owner."""
    place: RunnableConfig = {
        "configurable": {"thread_id": run.run_id, "checkpoint_ns": "", "checkpoint_id": "of the lost owner"}
    }
    await saver(pool, run).aput_writes(place, [("__interrupt__", "ask")], "task")


@asynccontextmanager
async def failed_over(primary: EmbeddedPostgres, standby: Standby) -> AsyncIterator[tuple[Pool, RunRecord, RunRecord]]:
    """A pool on the promoted standby, and a run with the two owners that got it at the same epoch."""
    async with open_pool(standby.either_dsn(DATABASE), size=2) as pool:
        created, _ = await store(pool, "first").create(new_run(), claim=False)
        await asyncio.to_thread(standby.catch_up)
        await asyncio.to_thread(standby.cut_off)
        [first] = await store(pool, "first").upkeep.claim_pending(1, AGENTS)
        await step(pool, first, 1)
        await asyncio.to_thread(primary.stop)
        await asyncio.to_thread(standby.promote)
        await pool.check()
        [second] = await store(pool, "second").upkeep.claim_pending(1, AGENTS)
        assert (first.run_id, second.run_id) == (created.run_id, created.run_id)
        yield pool, first, second


async def test_two_owners_of_one_epoch(primary: EmbeddedPostgres, standby: Standby) -> None:
    late: list[Callable[[Pool, RunRecord], Awaitable[Any]]] = [
        lambda pool, run: step(pool, run, 2),
        write_ahead,
        lambda pool, run: store(pool, "first").await_input(run, ASKED),
        lambda pool, run: store(pool, "first").end(run, Ending(RunState.SUCCEEDED)),
    ]
    async with failed_over(primary, standby) as (pool, first, second):
        assert first.epoch == second.epoch
        assert first.claim_id != second.claim_id
        for write in late:
            with pytest.raises(ClaimLost):
                await write(pool, first)
        await store(pool, "first").release(first)  # says nothing, and frees nothing
        await store(pool, "first").upkeep.renew_leases([first.run_id])

        await step(pool, second, 1)
        still = await store(pool, "second").get(first.run_id, first.caller)
        assert (still.state, still.epoch, still.claim_id) == (RunState.RUNNING, second.epoch, second.claim_id)
        ended = await store(pool, "second").end(second, Ending(RunState.SUCCEEDED))
        assert ended.state is RunState.SUCCEEDED
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT count(*) FROM platform.checkpoints")
            assert await cursor.fetchone() == (1,)
            cursor = await connection.execute("SELECT count(*) FROM platform.checkpoint_writes")
            assert await cursor.fetchone() == (0,)
