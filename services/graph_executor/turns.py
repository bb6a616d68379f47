"""One query of a caller at a time: whoever asks for much waits for their own, and not the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """The turns of callers, by name."""

    def __init__(self) -> None:
        # Whoever has the turn or waits for it holds the lock; without any of them it is gone.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Waits for the turn of a caller, who has it for as long as the context."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
