"""SIGTERM to every service in turn under load: runs are handed over at a step boundary, and no call fails for good."""

from __future__ import annotations

from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.deployment import GRACE_S, Deployment
from tests.chaos.load import Load
from tests.chaos.test_replica_frozen import TAKEN_OVER


async def test_replicas_of_the_runtime(deployed: Deployment) -> None:
    load = Load(deployed, concurrency=12)
    async with load.running():
        for replica in deployed.stack.runtimes:
            others = [other for other in deployed.stack.runtimes if other is not replica]
            taken_before = await deployed.metric(TAKEN_OVER, others)
            await load.more(6)
            await restart(replica)
            assert await deployed.metric(TAKEN_OVER, others) == taken_before, "runs were abandoned, not handed over"
        await load.more(12)
    await check(deployed, load.told)


async def test_everything_else(deployed: Deployment) -> None:
    load = Load(deployed, concurrency=10, callers_reconnect=True)
    async with load.running():
        for service in (deployed.executor, deployed.stack.service("guard"), deployed.stack.service("gateway")):
            await load.more(6)
            await restart(service)
        await load.more(10)
    await check(deployed, load.told)


async def restart(service: ServiceProcess) -> None:
    """Restarts a service, which must end by itself within its grace."""
    await service.stop(grace_s=GRACE_S)
    assert service.returncode == 0, service.logs()[-2000:]
    await service.start()
