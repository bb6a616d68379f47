"""Replicas that join under load, through a name whose addresses change: each carries its share within seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from services.local.ports import bind
from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import GRACE_S, Deployment, deployment, until
from tests.chaos.load import Load
from tests.fixtures.names import NameServer
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import reserved_port

CONCURRENCY = 12
FIRST, SECOND = "127.0.0.2", "127.0.0.3"
CLAIMS = "signalbox_runs_claimed_total"
SCREENINGS = "signalbox_guard_screenings_total"
# What is promised: so long after it is ready, a replica has its share.
SETTLED_S = 10.0


@dataclass(frozen=True)
class Growing:
    """A deployment in which a service is called by a name, at a port that its replicas share."""

    deployment: Deployment
    names: dict[str, NameServer]
    ports: dict[str, int]

    @asynccontextmanager
    async def joined(self, service: ServiceProcess) -> AsyncIterator[ServiceProcess]:
        """Starts one more replica of a service; the name leads to it once it is ready."""
        listen = f"{SECOND}:{self.ports[service.name]}"
        program = replace(
            service.program, name=f"{service.name}-added", env={**service.program.env, "SIGNALBOX_LISTEN": listen}
        )
        added = ServiceProcess(program, self.deployment.stack.directory, ready_timeout_s=START_TIMEOUT_S)
        try:
            await added.start()
            self.names[service.name].addresses = [FIRST, SECOND]
            yield added
        finally:
            self.names[service.name].addresses = [FIRST]
            await added.stop(grace_s=GRACE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def growing() -> AsyncIterator[Growing]:
    async with AsyncExitStack() as stack:
        names, ports = {}, {}
        for service in ("runtime", "guard"):
            names[service] = await stack.enter_async_context(NameServer())
            names[service].addresses = [FIRST]
            ports[service] = stack.enter_context(reserved_port(FIRST))
            stack.enter_context(bind(f"{SECOND}:{ports[service]}"))
        targets = {service: names[service].target(ports[service]) for service in names}
        env = {
            "gateway": {"SIGNALBOX_RUNTIME_TARGET": targets["runtime"]},
            "runtime": {
                "SIGNALBOX_LISTEN": f"{FIRST}:{ports['runtime']}",
                "SIGNALBOX_GUARD_TARGET": targets["guard"],
            },
            "guard": {"SIGNALBOX_LISTEN": f"{FIRST}:{ports['guard']}"},
        }
        yield Growing(await stack.enter_async_context(deployment(replicas=1, service_env=env)), names, ports)


async def carries(deployed: Deployment, metric: str, added: ServiceProcess) -> None:
    """Waits until a replica has had some of the work."""

    async def some() -> bool:
        return await deployed.metric(metric, [added]) > 0

    await until(some, f"{added.name} to get something to do")


async def share_of(
    deployed: Deployment, load: Load, metric: str, added: ServiceProcess, first: ServiceProcess, runs: int
) -> float:
    """What one of two replicas does of the work of so many runs."""
    before = [await deployed.metric(metric, [service]) for service in (added, first)]
    await load.more(runs, timeout_s=1800)
    after = [await deployed.metric(metric, [service]) for service in (added, first)]
    own, others = (now - then for now, then in zip(after, before, strict=True))
    return own / (own + others)


@pytest.mark.parametrize(("name", "metric"), [("guard", SCREENINGS), ("runtime", CLAIMS)])
async def test_a_replica_joins(growing: Growing, extent: Extent, name: str, metric: str) -> None:
    deployed = growing.deployment
    first = deployed.stack.service(name)
    load = Load(deployed, concurrency=CONCURRENCY)
    async with load.running():
        await load.more(CONCURRENCY)
        async with growing.joined(first) as added:
            settled_at = time.monotonic() + SETTLED_S
            await carries(deployed, metric, added)
            if extent.thorough:
                await asyncio.sleep(settled_at - time.monotonic())
                share = await share_of(deployed, load, metric, added, first, extent.runs)
                assert 0.25 <= share <= 0.75, f"{added.name} carries {share:.0%}, and half of it would be fair"
            await load.more(CONCURRENCY)
        # It leaves again, and nobody notices that either.
        await load.more(CONCURRENCY)
    await check(deployed, load.told)
