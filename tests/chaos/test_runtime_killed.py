"""kill -9 of the runtime's replicas, again and again under load: nothing lost, nothing twice, nobody notices."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment
from tests.chaos.load import Load

pytestmark = pytest.mark.faults

CONCURRENCY = 12
LONGEST_PAUSE_S = 1.0


async def test_replicas_killed_at_random_moments(deployed: Deployment, extent: Extent) -> None:
    load = Load(deployed, concurrency=CONCURRENCY)
    async with load.running():
        await load.finished(CONCURRENCY)
        await kill_again_and_again(deployed, extent.kills, extent.random())
        await load.finished(extent.runs)
    await check(deployed, load.told)
    epochs = [one.run.epoch for one in load.told]
    assert max(epochs) > 1, "no run was ever taken over: the kills hit nothing"


async def kill_again_and_again(deployed: Deployment, kills: int, random: Random) -> None:
    """Kills one replica after another while at least one more is up, and starts each again."""
    free: asyncio.Queue[ServiceProcess] = asyncio.Queue()
    for replica in deployed.stack.runtimes[1:]:
        free.put_nowait(replica)
    up_besides = deployed.stack.runtimes[0]
    async with asyncio.TaskGroup() as restarts:
        for _ in range(kills):
            # One that is up always stays behind; which one changes with every kill.
            await asyncio.sleep(random.uniform(0, LONGEST_PAUSE_S))
            candidates = [up_besides, await free.get()]
            random.shuffle(candidates)
            victim, up_besides = candidates
            await victim.kill()
            restarts.create_task(start_again(victim, free))


async def start_again(replica: ServiceProcess, free: asyncio.Queue[ServiceProcess]) -> None:
    """Starts a killed replica and makes it a candidate again."""
    await replica.start()
    free.put_nowait(replica)
