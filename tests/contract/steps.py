"""Dying between two steps: a program under test ends itself, as kill -9 does, at the step that it is told."""

from __future__ import annotations

import os
import signal
from typing import Any


class Steps:
    """Counts the steps of a program, and kills it at one of them; 0 never does.

    A step is the moment before or after an asynchronous call of something that was given to `around`.
    """

    def __init__(self, die_at: int) -> None:
        self._die_at = die_at
        self._taken = 0
        self._counting = False

    def begin(self) -> None:
        """Counts from here on."""
        self._counting = True

    def around(self, part: Any) -> Any:
        """Returns something that does what `part` does, a step before and a step after each call."""
        return _Stepping(part, self)

    def take(self) -> None:
        """Takes a step."""
        self._taken += self._counting
        if self._counting and self._taken == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class _Stepping:
    def __init__(self, part: Any, steps: Steps) -> None:
        self._part = part
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not callable(found):
            return found

        async def stepping(*arguments: Any, **named: Any) -> Any:
            self._steps.take()
            result = await found(*arguments, **named)
            self._steps.take()
            return result

        return stepping
