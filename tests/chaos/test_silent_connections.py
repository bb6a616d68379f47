"""Connections between services go silent under load, one kind after another: all runs end, and no step is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from services.local.topology import target
from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment, deployment
from tests.chaos.load import Load
from tests.fixtures.silent_proxy import Direction, SilentProxy

CONCURRENCY = 10
REPLICAS = 2
DIRECTIONS = (Direction.CALLS, Direction.ANSWERS, Direction.BOTH)


@dataclass(frozen=True)
class Wired:
    """A deployment whose services reach one another through proxies."""

    deployment: Deployment
    wires: dict[str, SilentProxy]


@pytest_asyncio.fixture(loop_scope="session")
async def wired() -> AsyncIterator[Wired]:
    async with AsyncExitStack() as stack:
        runtimes = [await stack.enter_async_context(SilentProxy()) for _ in range(REPLICAS)]
        guard, executor, database = [await stack.enter_async_context(SilentProxy()) for _ in range(3)]
        env = {
            "gateway": {"SIGNALBOX_RUNTIME_TARGET": target([wire.address for wire in runtimes])},
            "runtime": {
                "SIGNALBOX_GUARD_TARGET": target([guard.address]),
                "SIGNALBOX_SQL_EXECUTOR_TARGET": target([executor.address]),
            },
        }
        starting = deployment(replicas=REPLICAS, service_env=env, database_wire=database)
        made = await stack.enter_async_context(starting)
        for wire, replica in zip(runtimes, made.stack.runtimes, strict=True):
            wire.upstream = replica.ready.listen
        guard.upstream = made.stack.service("guard").ready.listen
        executor.upstream = made.executor.ready.listen
        named = {f"gateway to replica {number}": wire for number, wire in enumerate(runtimes, 1)}
        yield Wired(made, {**named, "guard": guard, "executor": executor, "database": database})


@pytest.mark.timeout(1200)
async def test_every_kind_of_connection(wired: Wired, extent: Extent) -> None:
    deployed, random = wired.deployment, extent.random()
    # All kinds, one direction of each; where much harm is to be done, all directions.
    harm = [(name, random.choice(DIRECTIONS)) for name in wired.wires]
    if extent.thorough:
        harm = [(name, direction) for name in wired.wires for direction in DIRECTIONS]
    random.shuffle(harm)
    load = Load(deployed, concurrency=CONCURRENCY, callers_reconnect=True)
    async with load.running():
        for name, direction in harm:
            await load.more(CONCURRENCY)
            wire = wired.wires[name]
            assert wire.connections, f"nobody is connected to the {name}"
            # What is open stays silent for ever; new connections work.
            wire.silence(direction)
            wire.speak()
        await load.more(2 * CONCURRENCY)
    await check(deployed, load.told)
    unharmed = [name for name, wire in wired.wires.items() if not wire.swallowed_bytes]
    assert not unharmed, f"nothing was lost on the way to {unharmed}"
