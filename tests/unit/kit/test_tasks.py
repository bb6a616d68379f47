"""What begins in a call and outlives it."""

from __future__ import annotations

import asyncio
import contextlib

from opentelemetry import context

from services.kit.telemetry.tracing import carried, carrying
from services.kit.wire import deadline
from services.kit.wire.tasks import detached, stop


async def test_a_detached_task_knows_nothing_of_the_call_that_starts_it() -> None:
    async def look() -> tuple[float | None, str]:
        return deadline.remaining(), carried("run_id")

    deadline.set_remaining(0)
    token = context.attach(carrying({"run_id": "r-1"}))
    try:
        assert await look() == (0, "r-1")
        assert await detached(look()) == (None, "")
    finally:
        context.detach(token)
        deadline.set_remaining(None)


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
