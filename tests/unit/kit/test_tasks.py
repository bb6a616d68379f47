"""What begins in a call and outlives it."""

from __future__ import annotations

from opentelemetry import context

from services.kit.telemetry.tracing import carried, carrying
from services.kit.wire import deadline
from services.kit.wire.tasks import detached


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
