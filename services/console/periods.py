"""Times that pages look back at, in intervals as the gateway counts them: whole hours of UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR_S = 3600


@dataclass(frozen=True)
class Period:
    """A time up to now: so many intervals of so many hours."""

    name: str
    words: str
    interval_words: str
    interval_hours: int
    intervals: int

    def begin(self) -> int:
        """Returns when the first interval begins, in seconds since 1970; the last is the present one."""
        length = self.interval_hours * HOUR_S
        return int(datetime.now(UTC).timestamp()) // length * length - (self.intervals - 1) * length

    def place(self, moment_s: int, begin: int) -> int:
        """Returns the number of the interval that a time is in."""
        return (moment_s - begin) // (self.interval_hours * HOUR_S)


PERIODS: Mapping[str, Period] = {
    each.name: each
    for each in (
        Period("day", "the last day", "hour", 1, 24),
        Period("week", "the last week", "6 hours", 6, 28),
        Period("month", "the last month", "day", 24, 31),
    )
}
