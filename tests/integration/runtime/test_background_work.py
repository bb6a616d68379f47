"""What a replica does in the background goes on, whatever has gone wrong once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.clock import ClockWatch
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


async def test_pruning(platform_pool: AsyncConnectionPool[Any], monkeypatch: pytest.MonkeyPatch) -> None:
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
