"""A replica with nothing to do asks one thing a sweep, and does the rest once there is reason to."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from services.runtime.engine import carrier, queries, upkeep
from services.runtime.engine.records import RunState
from tests.fixtures.replica import Counting
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
SWEEPS = 5
OFTEN = {"due", "renew_lease"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each statement of upkeep was asked for."""
    counted: Counter[str] = Counter()

    def query(name: str) -> str:
        counted[name] += 1
        return queries.query(name)

    for module in (upkeep, carrier):
        monkeypatch.setattr(module, "query", query)
    return counted


async def sweeps(asked: Counter[str]) -> None:
    """Waits for some more."""
    enough = asked["due"] + SWEEPS
    async with asyncio.timeout(TIMEOUT_S):
        while asked["due"] < enough:  # noqa: ASYNC110 - what is waited for is counted
            await asyncio.sleep(0.01)


async def test_nothing_else_is_asked_while_there_are_no_runs(start_replica: StartReplica, asked: Counter[str]) -> None:
    await start_replica(sweep_interval_s=0.05)
    await sweeps(asked)
    asked.clear()
    await sweeps(asked)
    # What it looks at without reason, it looks at once in twenty sweeps.
    assert all(count <= 1 for name, count in asked.items() if name not in OFTEN), asked


async def test_a_sweep_finds_what_was_left_pending(start_replica: StartReplica, asked: Counter[str]) -> None:
    replica = await start_replica(sweep_interval_s=0.05)
    await sweeps(asked)
    run, _ = await replica.store.create(new_run(until=1), claim=False)  # as another replica's, which is gone
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_runs_under_way_are_looked_after(start_replica: StartReplica, asked: Counter[str]) -> None:
    counting = Counting()
    gate = counting.hold(1)
    replica = await start_replica(counting, sweep_interval_s=0.05)
    run, _ = await replica.engine.create(new_run(until=1))
    await counting.reached.wait()
    asked.clear()
    await sweeps(asked)
    assert min(asked["take_over"], asked["owned_runs"]) >= SWEEPS - 2
    gate.set()
    async with asyncio.timeout(TIMEOUT_S):
        await ended(replica, run)
