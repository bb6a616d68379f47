"""A replica frozen past its lease: others go on with its runs, and what it writes when it wakes up is refused."""

from __future__ import annotations

import signal

from services.cli.local.processes import ServiceProcess
from tests.chaos.arena import Arena, until
from tests.chaos.book import check
from tests.chaos.load import Load

TAKEN_OVER = "signalbox_runs_taken_over_total"
CLAIMS_LOST = "signalbox_claims_lost_total"


async def test_late_writes_are_refused(ring: Arena) -> None:
    frozen, *others = ring.stack.runtimes
    lost_before = await ring.metric(CLAIMS_LOST, [frozen])
    load = Load(ring, concurrency=12)
    async with load.running():
        await load.more(12)
        await freeze_at_work(ring, frozen, others)
        frozen.signal(signal.SIGCONT)

        async def refused() -> bool:
            return await ring.metric(CLAIMS_LOST, [frozen]) > lost_before

        await until(refused, "the late writes of the replica that woke up to be refused")
        await load.more(12)
    await check(ring, load.told)


async def freeze_at_work(ring: Arena, frozen: ServiceProcess, others: list[ServiceProcess]) -> None:
    """Freezes a replica that executes runs, until others have taken them over."""
    taken_before = await ring.metric(TAKEN_OVER, others)

    async def at_work() -> bool:
        return await ring.metric("signalbox_runs_active", [frozen]) >= 2

    async def taken_over() -> bool:
        return await ring.metric(TAKEN_OVER, others) > taken_before

    await until(at_work, "the replica to have runs")
    frozen.signal(signal.SIGSTOP)
    await until(taken_over, "its runs to be taken over")
