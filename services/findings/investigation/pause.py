"""When a batch holds back: what the platform waits for would keep one more run waiting, and use up its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pause:
    """No new runs are asked for while one under way waits for something that is away, until it has taken a step."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting: set[str] = set()
        self._over = asyncio.Event()
        self._over.set()

    async def over(self) -> None:
        """Waits until no run waits."""
        await self._over.wait()

    def waits(self, run_id: str, dependency: str) -> None:
        """Takes note of a run that waits."""
        if not self._waiting:
            self._say(f"paused: the {dependency} is away; the platform waits for it")
            self._over.clear()
        self._waiting.add(run_id)

    def goes_on(self, run_id: str) -> None:
        """Takes note of a run that has taken a step, or has ended."""
        if run_id not in self._waiting:
            return
        self._waiting.discard(run_id)
        if not self._waiting:
            self._say("going on")
            self._over.set()
