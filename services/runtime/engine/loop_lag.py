"""How late the event loop is: what a replica does in one piece, everything else waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.runtime.metrics import LOOP_LAG

INTERVAL_S, IDLE_INTERVAL_S = 0.05, 1.0


@contextmanager
def measuring_loop_lag(busy: Callable[[], bool]) -> Iterator[None]:
    """Measures inside the context: twenty times a second while the replica is busy, once when it is not.

    By a timer, as a task that sleeps takes twice the CPU, all day.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def set_timer() -> None:
        nonlocal timer
        interval_s = INTERVAL_S if busy() else IDLE_INTERVAL_S
        timer = loop.call_later(interval_s, look, time.perf_counter() + interval_s)

    def look(due: float) -> None:
        LOOP_LAG.observe(max(0.0, time.perf_counter() - due))
        set_timer()

    set_timer()
    try:
        yield
    finally:
        timer.cancel()
