"""Tasks that outlive the call in which they begin."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")
CANCEL_AGAIN_S = 0.5


def detached(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Starts a task that knows nothing of the call being served: not its deadline, its trace, nor its baggage.

    `asyncio.create_task` copies the context variables of whoever calls it. What goes on for somebody else, or after the
    call has been answered, would end with that call's deadline. Whoever starts it keeps the task, and awaits it or not.
    """
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks and waits for their end.

    Again and again: before Python 3.12 `asyncio.wait_for`, by which psycopg waits, loses a cancellation that comes
    together with what it waits for.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_S)
