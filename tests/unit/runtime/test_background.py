"""Loops end when they are told to, also when they were not listening the first time."""

from __future__ import annotations

import asyncio
import contextlib

from services.runtime.engine.background import stop


async def test_a_cancellation_that_got_lost_is_repeated() -> None:
    started, lost = asyncio.Event(), []

    async def loses_one() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            started.set()
            await asyncio.Event().wait()
        lost.append(True)
        await asyncio.Event().wait()

    async def fails() -> None:
        raise ValueError("before its end")

    tasks = [asyncio.create_task(loses_one()), asyncio.create_task(fails())]
    await started.wait()
    async with asyncio.timeout(60):
        await stop(*tasks)
    assert lost
    assert tasks[0].cancelled()
