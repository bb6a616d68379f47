"""How late the event loop is: what a replica does in one piece, everything else waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.runtime.engine.background import stop
from services.runtime.metrics import LOOP_LAG

INTERVAL_S = 0.05


@asynccontextmanager
async def measuring_loop_lag() -> AsyncIterator[None]:
    """Measures inside the context."""
    measuring = asyncio.create_task(_measure())
    try:
        yield
    finally:
        await stop(measuring)


async def _measure() -> None:
    while True:
        due = time.perf_counter() + INTERVAL_S
        await asyncio.sleep(INTERVAL_S)
        LOOP_LAG.observe(max(0.0, time.perf_counter() - due))
