"""SIGTERM to every service in turn under load: runs are handed over at a step boundary, and no call fails for good."""

from __future__ import annotations

from services.cli.local.processes import ServiceProcess
from tests.chaos.arena import Arena
from tests.chaos.book import check
from tests.chaos.load import Load
from tests.chaos.test_replica_frozen import TAKEN_OVER
from tests.fixtures.ports import place_kept

GRACE_S = 120.0


async def test_replicas_of_the_runtime(ring: Arena) -> None:
    load = Load(ring, concurrency=12)
    async with load.running():
        for replica in ring.stack.runtimes:
            others = [other for other in ring.stack.runtimes if other is not replica]
            taken_before = await ring.metric(TAKEN_OVER, others)
            await load.more(6)
            await restart(replica)
            assert await ring.metric(TAKEN_OVER, others) == taken_before, "runs were abandoned, not handed over"
        await load.more(12)
    await check(ring, load.told)


async def test_everything_else(ring: Arena) -> None:
    load = Load(ring, concurrency=10, callers_reconnect=True)
    async with load.running():
        for service in (ring.executor, ring.stack.service("guard"), ring.stack.service("gateway")):
            await load.more(6)
            await restart(service)
        await load.more(10)
    await check(ring, load.told)


async def restart(service: ServiceProcess) -> None:
    """Restarts a service, which must end by itself within its grace."""
    await service.stop(grace_s=GRACE_S)
    assert service.returncode == 0, service.logs()[-2000:]
    with place_kept(service):
        await service.start()
