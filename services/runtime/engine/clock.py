"""This replica's clock against the database's.

Leases and expiries go by the database's clock alone. Tokens go by each service's own: a replica whose clock is off
would mint tokens that nobody takes, and refuse good ones. It hands its runs over and takes no more until it agrees.
"""

from __future__ import annotations

import time
from typing import Any

from psycopg import AsyncConnection

from services.kit.telemetry.logs import get_logger
from services.runtime.errors import ClockOff
from services.runtime.metrics import CLOCK_SKEW

log = get_logger()


class ClockWatch:
    """Knows how far this replica's clock is from the database's; a tolerance of 0 never finds it off."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._skew_s = 0.0

    @property
    def off(self) -> bool:
        """True while the clocks disagree by more than is tolerated."""
        return 0 < self._tolerance_s < abs(self._skew_s)

    def check(self) -> None:
        """Raises ClockOff while the clocks disagree."""
        if self.off:
            raise ClockOff(f"this replica's clock is off by {self._skew_s:.0f} s; ask another")

    async def compare(self, connection: AsyncConnection[Any]) -> None:
        """Compares the clocks. Raises psycopg.Error."""
        before = time.time()
        cursor = await connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        [[there]] = await cursor.fetchall()
        self.note(before, there, time.time())

    def note(self, before: float, there: float, after: float) -> None:
        """Takes down the database's time, which was read between two moments of this clock."""
        was_off = self.off
        # Only what is certain: a slow answer is no skew.
        self._skew_s = before - there if there < before else min(0.0, after - there)
        CLOCK_SKEW.set(self._skew_s)
        if self.off and not was_off:
            log.error("the clock is off; taking no runs", skew_s=round(self._skew_s, 3))
        elif was_off and not self.off:
            log.warning("the clock is right again", skew_s=round(self._skew_s, 3))
