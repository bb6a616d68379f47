"""What a replica does in the background goes on, whatever has gone wrong once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest

from services.kit.wire.silence import NOTICE_LOSS_THERE
from services.runtime.engine import liveness
from services.runtime.engine.background import attempt
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.liveness import LivenessLock
from services.runtime.engine.records import RunState
from services.runtime.engine.retention import Pruner, pruning
from services.runtime.engine.serde import make_serde
from tests.fixtures.replica import Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
_LOCKS = """
    SELECT count(*) FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database
    WHERE held.locktype = 'advisory' AND held.granted AND here.datname = current_database()
"""
_HOLDER = """
    SELECT held.pid FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database
    WHERE held.locktype = 'advisory' AND held.granted AND here.datname = current_database()
"""
_WAITING: LiteralString = _HOLDER.replace("held.granted", "NOT held.granted")
_LOCK = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"


class Failing:
    """Takes the place of a method and goes wrong once, in a way that nobody thought of."""

    def __init__(self, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._method: Callable[..., Awaitable[Any]] = getattr(owner, name)
        self.calls = 0
        monkeypatch.setattr(owner, name, self)

    async def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise KeyError("unforeseen")
        return await self._method(*args, **options)

    async def called(self, times: int) -> None:
        """Waits until it has been called so often."""
        async with asyncio.timeout(TIMEOUT_S):
            while self.calls < times:  # noqa: ASYNC110 - the caller is what is tested
                await asyncio.sleep(0.01)


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


async def test_claims(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    await Failing(replica.upkeep, "claim_pending", monkeypatch).called(1)
    run, _ = await replica.store.create(new_run(), claim=False)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_sweeps(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    await Failing(replica.upkeep, "due", monkeypatch).called(1)
    run, _ = await replica.store.create(new_run(), claim=True)  # the engine knows nothing of it
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_pruning(platform_pool: PlatformPool, monkeypatch: pytest.MonkeyPatch) -> None:
    pruner = Pruner(platform_pool, CheckpointHistory(platform_pool, make_serde()), {})
    failing = Failing(pruner, "prune", monkeypatch)
    async with pruning(pruner, interval_s=0.01):
        await failing.called(2)


async def test_liveness(platform_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ClockWatch(0)
    async with (
        LivenessLock(platform_dsn, "a replica", clock).held(),
        await psycopg.AsyncConnection.connect(platform_dsn) as observer,
    ):
        await Failing(clock, "compare", monkeypatch).called(2)
        cursor = await observer.execute(_LOCKS)
        assert await cursor.fetchone() == (1,)


async def test_a_lock_that_a_stale_session_keeps_for_long_is_taken_in_the_end(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A wait for the lock is cut off soon, and again and again.
    monkeypatch.setattr(liveness, "attempt", partial(attempt, limit_s=0.5))
    async with (
        LivenessLock(platform_dsn, "a replica").held(),
        await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as stale,
        await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as observer,
        asyncio.timeout(TIMEOUT_S),
    ):
        [lost] = await _pids(observer, _HOLDER)
        taking = asyncio.create_task(stale.execute(_LOCK, ["a replica"]))
        while not await _pids(observer, _WAITING):  # noqa: ASYNC110 - it happens in the database
            await asyncio.sleep(0.01)
        # To the server, the session that gets it now is the replica's own of before.
        await observer.execute("SELECT pg_terminate_backend(%s)", [lost])
        await taking
        waited: set[int] = set()
        while len(waited) < 2:
            waited |= set(await _pids(observer, _WAITING))
            await asyncio.sleep(0.01)
        await stale.execute("SELECT pg_advisory_unlock_all()")
        while not await _pids(observer, _HOLDER):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.01)


async def test_the_server_too_is_to_notice_that_the_replica_is_gone(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    async def look(_self: ClockWatch, connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = await connection.execute("SELECT name, setting FROM pg_settings WHERE name LIKE 'tcp%'")
        seen.update(await cursor.fetchall())

    monkeypatch.setattr(ClockWatch, "compare", look)
    async with LivenessLock(platform_dsn, "a replica").held():
        assert {name: seen[name] for name in NOTICE_LOSS_THERE} == NOTICE_LOSS_THERE


async def test_a_replica_that_lost_its_connection_gives_the_others_time(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "SETTLE_S", math.inf)
    lock = LivenessLock(platform_dsn, "a replica")
    async with (
        lock.held(),
        await psycopg.AsyncConnection.connect(platform_dsn, autocommit=True) as observer,
        asyncio.timeout(TIMEOUT_S),
    ):
        assert lock.settled, "it has just started, and has lost nothing"
        [lost] = await _pids(observer, _HOLDER)
        await observer.execute("SELECT pg_terminate_backend(%s)", [lost])
        while await _pids(observer, _HOLDER) in ([], [lost]):  # noqa: ASYNC110 - it happens in the database
            await asyncio.sleep(0.01)
        assert not lock.settled
        monkeypatch.setattr(liveness, "SETTLE_S", 0.0)
        assert lock.settled


async def _pids(connection: psycopg.AsyncConnection[Any], statement: LiteralString) -> list[int]:
    return [pid for (pid,) in await (await connection.execute(statement)).fetchall()]
