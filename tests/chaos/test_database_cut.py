"""The platform's database goes away: restarted, crashed, and with sessions cut in the middle of what they do."""

from __future__ import annotations

import asyncio
import os
import signal
from random import Random

from tests.chaos.arena import Arena, until
from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.load import Load
from tests.fixtures.ports import reserved

CUTS = 20
PAUSE_S = 0.02  # between looks for a session at work
_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'signalbox-runtime'"
_LIVENESS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'signalbox-runtime-liveness'"
_CUT_BUSY = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'signalbox-runtime' AND datname = current_database() AND state <> 'idle'
"""


async def test_restarted(ring: Arena) -> None:
    load = Load(ring, concurrency=10, callers_reconnect=True)
    async with load.running():
        await load.more(15)
        address = f"127.0.0.1:{ring.postgres.port}"
        await asyncio.to_thread(ring.postgres.stop)
        with reserved(address):
            await asyncio.to_thread(ring.postgres.start)
        await load.more(15)
    await check(ring, load.told)


async def test_crashed(ring: Arena, extent: Extent) -> None:
    load = Load(ring, concurrency=10, callers_reconnect=True)
    async with load.running():
        await load.more(15)
        # The kernel's own kill -9 of one session makes the server throw out all of them and recover from its log.
        sessions = await ring.rows(_SESSIONS)
        os.kill(extent.random().choice(sessions)[0], signal.SIGKILL)
        await load.more(15)
    await check(ring, load.told)


async def test_sessions_cut_in_mid_statement(ring: Arena) -> None:
    load = Load(ring, concurrency=10, callers_reconnect=True)
    async with load.running():
        cut = 0
        async with asyncio.timeout(480), ring.database() as connection:
            while cut < CUTS:
                cursor = await connection.execute(_CUT_BUSY)
                cut += (await cursor.fetchone() or (0,))[0]
                await asyncio.sleep(PAUSE_S)
        await load.more(10)
    await check(ring, load.told)


async def test_liveness_locks_lost(ring: Arena, extent: Extent) -> None:
    random: Random = extent.random()
    load = Load(ring, concurrency=10)
    async with load.running():
        for _ in range(3):
            await load.more(5)
            locks = await ring.rows(_LIVENESS)
            await ring.rows("SELECT pg_terminate_backend(%s)", random.choice(locks)[0])

            async def all_held() -> bool:
                return len(await ring.rows(_LIVENESS)) == len(ring.stack.runtimes)

            await until(all_held, "every replica to hold its liveness lock again")
        await load.more(10)
    await check(ring, load.told)
