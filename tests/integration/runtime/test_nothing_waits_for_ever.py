"""Statements, locks, pauses, rounds and answers that get lost on the way: each has its limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg_pool.base import AttemptWithBackoff

from services.runtime.engine import database
from services.runtime.engine.background import attempt
from services.runtime.engine.database import SESSION_LIMITS, PlatformConnection, PlatformPool, open_pool, unhurried
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.records import RunState
from services.runtime.engine.retention import Pruner
from services.runtime.engine.serde import make_serde
from services.runtime.errors import DatabaseAway
from tests.fixtures.silent_proxy import Direction, SilentProxy
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
# Pauses that doubled without end would have an outage of so many attempts last for centuries.
MANY_ATTEMPTS = 40


def through(proxy: SilentProxy, dsn: str) -> str:
    """The DSN by way of a proxy."""
    parts = urlsplit(dsn)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{proxy.address}" if user else proxy.address))


@pytest.fixture
async def proxy(platform_dsn: str) -> AsyncIterator[SilentProxy]:
    info = psycopg.conninfo.conninfo_to_dict(platform_dsn)
    async with SilentProxy(f"{info['host']}:{info.get('port') or 5432}") as opened:
        yield opened


async def limits_of(connection: psycopg.AsyncConnection[Any]) -> dict[str, str]:
    cursor = await connection.execute(
        "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [list(SESSION_LIMITS)]
    )
    return dict(await cursor.fetchall())


@pytest.mark.parametrize("statement", ["SELECT pg_sleep(60)", "SELECT pg_advisory_lock(1)"])
async def test_statements_and_locks_have_limits(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(
        database, "SESSION_LIMITS", {**SESSION_LIMITS, "statement_timeout": "500ms", "lock_timeout": "100ms"}
    )
    async with await psycopg.AsyncConnection.connect(platform_dsn) as holder, open_pool(platform_dsn, size=1) as pool:
        await holder.execute("SELECT pg_advisory_lock(1)")
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(DatabaseAway):
                async with pool.connection() as connection:
                    await connection.execute(statement)
            async with pool.connection() as connection:
                await connection.execute("SELECT 1")


async def test_sessions_have_the_limits_and_upkeep_has_none(platform_dsn: str) -> None:
    async with open_pool(platform_dsn, size=1) as pool:
        async with pool.connection() as connection:
            ours = await limits_of(connection)
        async with unhurried(pool) as connection:
            assert set((await limits_of(connection)).values()) == {"0"}
        async with pool.connection() as connection:
            assert await limits_of(connection) == ours
    assert ours == {
        "statement_timeout": "30000", "lock_timeout": "10000", "idle_in_transaction_session_timeout": "30000",
    }  # fmt: skip


async def test_those_who_take_their_time_leave_others_a_connection(platform_dsn: str) -> None:
    over = asyncio.Event()

    async def report(pool: PlatformPool) -> None:
        async with unhurried(pool):
            await over.wait()

    async with open_pool(platform_dsn, size=2) as pool, asyncio.TaskGroup() as reports:
        for _ in range(3):
            reports.create_task(report(pool))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                for _ in range(3):
                    async with pool.connection() as connection:
                        await connection.execute("SELECT 1")
        finally:
            over.set()


async def test_what_the_dsn_says_has_the_last_word_and_a_poolers_sessions_are_left_alone(platform_dsn: str) -> None:
    joined = "&" if "?" in platform_dsn else "?"
    dsn = f"{platform_dsn}{joined}options=-c%20lock_timeout%3D7s"
    async with open_pool(dsn, size=1) as pool, pool.connection() as connection:
        limits = await limits_of(connection)
        assert (limits["lock_timeout"], limits["statement_timeout"]) == ("7000", "30000")
    async with open_pool(platform_dsn, size=1, prepare=False) as pool, pool.connection() as connection:
        assert set((await limits_of(connection)).values()) == {"0"}


async def test_the_pruner_may_take_its_time(platform_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SESSION_LIMITS", {**SESSION_LIMITS, "lock_timeout": "50ms"})
    async with (
        await psycopg.AsyncConnection.connect(platform_dsn) as holder,
        open_pool(platform_dsn, size=2) as pool,
        asyncio.timeout(TIMEOUT_S),
    ):
        await holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('signalbox retention', 2))")
        pruning = asyncio.create_task(Pruner(pool, CheckpointHistory(pool, make_serde()), {}).prune(wait=True))
        while not await _waits_for_a_lock(holder):  # noqa: ASYNC110 - what is waited for happens in the database
            await asyncio.sleep(0.01)
        await asyncio.wait([pruning], timeout=0.2)  # four times what anybody else may wait
        assert not pruning.done()
        await holder.rollback()
        assert await pruning is not None


async def _waits_for_a_lock(connection: psycopg.AsyncConnection[Any]) -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database"
        " WHERE here.datname = current_database() AND locktype = 'advisory' AND NOT granted"
    )
    return await cursor.fetchone() is not None


async def test_a_round_has_a_limit() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(TIMEOUT_S):
        assert not await attempt("hanging", hang(), limit_s=0.01)


@pytest.mark.parametrize("direction", [Direction.CALLS, Direction.ANSWERS, Direction.BOTH])
async def test_an_answer_that_gets_lost_is_not_waited_for(
    platform_dsn: str, proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch, direction: Direction
) -> None:
    # For a connection that has been used once: what must be answered here may take as long as ever.
    monkeypatch.setattr(database, "ANSWER_S", 0.5)
    async with open_pool(through(proxy, platform_dsn), size=1) as pool, asyncio.timeout(TIMEOUT_S):
        async with pool.connection() as connection:
            await connection.execute("SELECT 1")
        proxy.silence(direction)
        proxy.speak()
        with pytest.raises(DatabaseAway):
            async with pool.connection() as connection:
                await connection.execute("SELECT 1")
        async with pool.connection() as connection:  # a new one
            await connection.execute("SELECT 1")


async def test_a_replica_whose_connections_fall_silent_goes_on_with_new_ones(
    start_replica: StartReplica, platform_dsn: str, monkeypatch: pytest.MonkeyPatch, proxy: SilentProxy
) -> None:
    for holder, name in ((database, "ANSWER_S"), (database, "UPKEEP_ANSWER_S"), (PlatformConnection, "answer_s")):
        monkeypatch.setattr(holder, name, 5.0)
    replica = await start_replica(dsn=through(proxy, platform_dsn), round_s=0.5)
    first, _ = await replica.engine.create(new_run())
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, first)).state is RunState.SUCCEEDED
    assert proxy.connections > 0
    proxy.silence()
    proxy.speak()
    direct = await start_replica(sweep_interval_s=3600.0, max_concurrent_runs=0)
    run, _ = await direct.store.create(new_run(), claim=False)
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(direct, run)
    assert (done.state, direct.counting.counted) == (RunState.SUCCEEDED, [])


@pytest.fixture
async def hasty_pool(
    platform_dsn: str, proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PlatformPool]:
    """A pool behind the proxy whose pauses are as short as a test can wait for."""
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 0.02)
    monkeypatch.setattr(database, "RECONNECT_S", 0.06)
    async with open_pool(through(proxy, platform_dsn), size=3) as pool:
        yield pool


async def test_pauses_between_attempts_to_connect_do_not_grow_without_end(
    hasty_pool: PlatformPool, proxy: SilentProxy
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        there = await away(hasty_pool, proxy)
        asked = asyncio.create_task(statement(hasty_pool))
        await attempts(hasty_pool, MANY_ATTEMPTS)
        proxy.upstream = there
        await asked  # it has waited all the time, and nobody has asked since


async def test_a_pool_that_nobody_asks_has_its_least_number_again_after_an_outage(
    hasty_pool: PlatformPool, proxy: SilentProxy
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        there = await away(hasty_pool, proxy)
        await attempts(hasty_pool, MANY_ATTEMPTS)
        proxy.upstream = there
        while hasty_pool.get_stats()["pool_available"] < hasty_pool.min_size:  # noqa: ASYNC110 - the pool is what is tested
            await asyncio.sleep(0.01)


async def away(pool: PlatformPool, proxy: SilentProxy) -> str:
    """Has the server go away, and the pool notice; returns where it was."""
    there, proxy.upstream = proxy.upstream, ""
    async with pool.connection() as one, pool.connection() as other:
        await one.close()
        await other.close()
    return there


async def attempts(pool: PlatformPool, number: int) -> None:
    """Waits until the pool has tried to connect in vain so often."""
    while pool.get_stats().get("connections_errors", 0) < number:  # noqa: ASYNC110 - the same
        await asyncio.sleep(0.01)


async def statement(pool: PlatformPool) -> None:
    """Has something answered."""
    async with pool.connection() as connection:
        await connection.execute("SELECT 1")
