"""What is in the way of the items of one batch at this moment: each says so of itself, and when it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# A run that waited is tried again; when it has not said for so long that it waits once more, it does no longer.
TRIED_S: Final = 5.0
ASKS: Final = "a person's answer"


@dataclass(frozen=True)
class Hindrance:
    """Why a call has to be made again, and after how long; `cause` is a label of `metrics.SLOWED`."""

    cause: str
    message: str
    retry_after_s: float


class ItemWay:
    """What stands in the way of one item; `hindered` is told of what makes the batch go slower."""

    def __init__(self, hindered: Callable[[Hindrance], None]) -> None:
        self._hindered = hindered
        self._message = ""
        self._until = float("inf")

    def blocked(self, hindrance: Hindrance) -> None:
        """Takes that something is in the way."""
        self._message, self._until = hindrance.message, float("inf")
        self._hindered(hindrance)

    def asks(self) -> None:
        """Takes that the run awaits a person's input, which is no reason for others to wait."""
        self._message, self._until = ASKS, float("inf")

    def tried(self) -> None:
        """Takes that what was in the way is tried again."""
        if self._message == ASKS:
            self.clear()
        self._until = min(self._until, time.monotonic() + TRIED_S)

    def clear(self) -> None:
        """Takes that nothing is in the way."""
        self._message, self._until = "", float("inf")

    @property
    def message(self) -> str:
        """What is in the way now; empty where nothing is."""
        return self._message if time.monotonic() < self._until else ""
