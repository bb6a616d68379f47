"""Replicas of the runtime's engine in this process, over one real database, with an agent made for tests."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from services.kit.identity.caller import Caller
from services.runtime.engine.carrier import Claimable
from services.runtime.engine.database import PlatformPool, Pools
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord
from services.runtime.engine.store import RunStore
from services.runtime.engine.upkeep import Upkeep
from tests.fixtures.replica import BUDGET, Counting, Replica, counting_pins, open_replica
from tests.integration.runtime.odd_services import OddServices, odd_services

LEASE_S = 15.0
AGENT = "counting"
VERSION = Counting().graph.version
# What the stores of tests claim.
AGENTS = Claimable({AGENT: VERSION})
_numbers = itertools.count(1)


def new_run(subject: str = "27", **changes: Any) -> NewRun:
    """What it takes to create a run of the counting agent; `until` says how far it counts."""
    until = changes.pop("until", 3)
    defaults: dict[str, Any] = {
        "agent": AGENT,
        "graph_version": VERSION,
        "caller": Caller(subject, frozenset()),
        "input": Counting.input(until),
        "budget": BUDGET,
        "correlation_id": f"correlation-{next(_numbers)}",
        "active_run_policy": ActiveRunPolicy.REFUSE,
    }
    return NewRun(**{**defaults, **changes})


class OwnerStore(RunStore):
    """The store of a replica, and its upkeep."""

    def __init__(
        self, pool: PlatformPool, owner: str, quota: CallerQuota | None = None, suspect_after: int = 3
    ) -> None:
        pools = Pools.shared(pool)
        pins = counting_pins(pool)
        super().__init__(pools, pins, owner=owner, lease_s=LEASE_S, quota=quota)
        self.upkeep = Upkeep(pools, pins, owner=owner, lease_s=LEASE_S, suspect_after=suspect_after)


MakeStore = Callable[..., OwnerStore]


@pytest.fixture
def make_store(platform_pool: PlatformPool) -> MakeStore:
    """Makes the store of a replica; its owner holds no liveness lock, so that it counts as gone for `take_over`."""

    def make(owner: str, quota: CallerQuota | None = None) -> OwnerStore:
        return OwnerStore(platform_pool, owner, quota)

    return make


@pytest.fixture
def first(make_store: MakeStore) -> OwnerStore:
    """The store of one replica."""
    return make_store("first")


@pytest.fixture
def second(make_store: MakeStore) -> OwnerStore:
    """The store of another."""
    return make_store("second")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def around_runtime(
    tmp_path_factory: pytest.TempPathFactory, shared_platform_dsn: str
) -> AsyncIterator[OddServices]:
    """A runtime that the tests of a file share, and around it services that answer as a test says."""
    async with odd_services(tmp_path_factory.mktemp("odd"), shared_platform_dsn) as services:
        yield services


StartReplica = Callable[..., Awaitable[Replica]]


@pytest.fixture
async def start_replica(platform_dsn: str) -> AsyncIterator[StartReplica]:
    """Starts replicas of the engine, each with an agent and connections of its own."""
    async with AsyncExitStack() as stack:

        async def start(counting: Counting | None = None, *, dsn: str = platform_dsn, **options: Any) -> Replica:
            return await stack.enter_async_context(open_replica(dsn, counting or Counting(), **options))

        yield start


async def ended(replica: Replica, run: RunRecord) -> RunRecord:
    """Waits for the end of a run as a watcher does, and returns the run."""
    async for _ in replica.engine.watch(run, 0):
        pass
    return await replica.store.get(run.run_id, run.caller)
