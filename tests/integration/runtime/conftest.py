"""Replicas of the runtime's engine in this process, over one real database, with an agent made for tests."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from services.kit.identity import Caller
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord
from services.runtime.engine.store import RunStore
from tests.fixtures.replica import Counting, Replica, open_replica

LEASE_S = 15.0
AGENTS = ("counting",)
_numbers = itertools.count(1)


def new_run(subject: str = "27", **changes: Any) -> NewRun:
    """What it takes to create a run of the counting agent; `until` says how far it counts."""
    until = changes.pop("until", 3)
    defaults: dict[str, Any] = {
        "agent": AGENTS[0],
        "graph_version": "1",
        "caller": Caller(subject, frozenset()),
        "input": Counting.input(until),
        "budget": Counting.budget,
        "correlation_id": f"correlation-{next(_numbers)}",
        "active_run_policy": ActiveRunPolicy.REFUSE,
    }
    return NewRun(**{**defaults, **changes})


MakeStore = Callable[..., RunStore]


@pytest.fixture
def make_store(platform_pool: AsyncConnectionPool[Any]) -> MakeStore:
    """Makes the store of a replica; its owner holds no liveness lock, so that it counts as gone for `take_over`."""

    def make(owner: str, quota: CallerQuota | None = None) -> RunStore:
        return RunStore(platform_pool, owner=owner, lease_s=LEASE_S, quota=quota)

    return make


@pytest.fixture
def first(make_store: MakeStore) -> RunStore:
    """The store of one replica."""
    return make_store("first")


@pytest.fixture
def second(make_store: MakeStore) -> RunStore:
    """The store of another."""
    return make_store("second")


StartReplica = Callable[..., Awaitable[Replica]]


@pytest.fixture
async def start_replica(platform_dsn: str) -> AsyncIterator[StartReplica]:
    """Starts replicas of the engine, each with an agent and connections of its own."""
    async with AsyncExitStack() as stack:

        async def start(counting: Counting | None = None, **options: Any) -> Replica:
            return await stack.enter_async_context(open_replica(platform_dsn, counting or Counting(), **options))

        yield start


async def ended(replica: Replica, run: RunRecord) -> RunRecord:
    """Waits for the end of a run as a watcher does, and returns the run."""
    async for _ in replica.engine.watch(run, 0):
        pass
    return await replica.store.get(run.run_id, run.caller)
