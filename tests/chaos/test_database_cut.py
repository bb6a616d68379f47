"""The platform's database crashes, and sessions are cut in the middle of what they do."""

from __future__ import annotations

import asyncio
import os
import signal
from random import Random

import pytest

from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment, until
from tests.chaos.load import Load

pytestmark = pytest.mark.faults

CUTS = 20
PAUSE_S = 0.02  # between looks for a session at work
_OF_HERE = "FROM pg_stat_activity WHERE datname = current_database() AND application_name ="
_SESSIONS = f"SELECT pid {_OF_HERE} 'signalbox-runtime'"
_LIVENESS = f"SELECT pid {_OF_HERE} 'signalbox-runtime-liveness'"
CUT_BUSY = f"SELECT count(pg_terminate_backend(pid)) {_OF_HERE} 'signalbox-runtime' AND state <> 'idle'"


async def test_crashed(deployed: Deployment, extent: Extent) -> None:
    load = Load(deployed, concurrency=10, callers_reconnect=True)
    async with load.running():
        await load.more(15)
        # The kernel's own kill -9 of one session makes the server throw out all of them and recover from its log.
        sessions = await deployed.rows(_SESSIONS)
        os.kill(extent.random().choice(sessions)[0], signal.SIGKILL)
        await load.more(15)
    await check(deployed, load.told)


async def test_sessions_cut_in_mid_statement(deployed: Deployment) -> None:
    load = Load(deployed, concurrency=10, callers_reconnect=True)
    async with load.running():
        cut = 0
        async with asyncio.timeout(480), deployed.database() as connection:
            while cut < CUTS:
                cursor = await connection.execute(CUT_BUSY)
                cut += (await cursor.fetchone() or (0,))[0]
                await asyncio.sleep(PAUSE_S)
        await load.more(10)
    await check(deployed, load.told)


async def test_liveness_locks_lost(deployed: Deployment, extent: Extent) -> None:
    random: Random = extent.random()
    load = Load(deployed, concurrency=10)
    async with load.running():
        for _ in range(3):
            await load.more(5)
            locks = await deployed.rows(_LIVENESS)
            await deployed.rows("SELECT pg_terminate_backend(%s)", random.choice(locks)[0])

            async def all_held() -> bool:
                return len(await deployed.rows(_LIVENESS)) == len(deployed.stack.runtimes)

            await until(all_held, "every replica to hold its liveness lock again")
        await load.more(10)
    await check(deployed, load.told)
