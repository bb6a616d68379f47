"""Times that pages look back at, in intervals as the gateway counts them: whole ones since 1970, in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

MINUTE_S, HOUR_S = 60, 3600


@dataclass(frozen=True)
class Period:
    """A time up to now: so many intervals of so many seconds."""

    name: str
    words: str
    interval_words: str
    interval_s: int
    intervals: int

    def begin(self) -> int:
        """Returns when the first interval begins, in seconds since 1970; the last is the present one."""
        newest = int(datetime.now(UTC).timestamp()) // self.interval_s * self.interval_s
        return newest - (self.intervals - 1) * self.interval_s

    def place(self, moment_s: int, begin: int) -> int:
        """Returns the number of the interval that a time is in."""
        return (moment_s - begin) // self.interval_s


PERIODS: Mapping[str, Period] = {
    each.name: each
    for each in (
        Period("day", "the last day", "hour", HOUR_S, 24),
        Period("week", "the last week", "6 hours", 6 * HOUR_S, 28),
        Period("month", "the last month", "day", 24 * HOUR_S, 31),
    )
}
# Shorter than what decisions are counted by.
HOURS = Period("hours", "the last 6 hours", "15 minutes", 15 * MINUTE_S, 24)
