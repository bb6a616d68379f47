"""A replica frozen past its lease: others go on with its runs, and what it writes when it wakes up is refused."""

from __future__ import annotations

import signal

import pytest

from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.deployment import Deployment, metric_of, until
from tests.chaos.load import Load

pytestmark = pytest.mark.faults

TAKEN_OVER = "signalbox_runs_taken_over_total"
CLAIMS_LOST = "signalbox_claims_lost_total"


async def test_late_writes_are_refused(deployed: Deployment) -> None:
    frozen, *others = deployed.stack.runtimes
    lost_before = await deployed.metric(CLAIMS_LOST, [frozen])
    load = Load(deployed, concurrency=12)
    async with load.running():
        await load.more(12)
        await freeze_at_work(frozen, others)
        frozen.signal(signal.SIGCONT)

        async def refused() -> bool:
            return await deployed.metric(CLAIMS_LOST, [frozen]) > lost_before

        await until(refused, "the late writes of the replica that woke up to be refused")
        await load.more(12)
    await check(deployed, load.told)


async def freeze_at_work(frozen: ServiceProcess, others: list[ServiceProcess]) -> None:
    """Freezes a replica that executes runs, until others have taken them over."""
    taken_before = await metric_of(others, TAKEN_OVER)

    async def at_work() -> bool:
        return await metric_of([frozen], "signalbox_runs_active") >= 2

    async def taken_over() -> bool:
        return await metric_of(others, TAKEN_OVER) > taken_before

    await until(at_work, "the replica to have runs")
    frozen.signal(signal.SIGSTOP)
    await until(taken_over, "its runs to be taken over")
