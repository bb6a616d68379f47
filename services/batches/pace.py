"""How many runs a batch holds at once: more while they end as fast as before, fewer when they don't.

The gradient of Netflix's concurrency-limits (`Gradient2Limit`, Apache-2.0,
https://github.com/Netflix/concurrency-limits): the limit follows the ratio of a long average of the time to an end to
the last such time, with room for one more. What is refused, and a run that is overdue, cut it back at once as
`AIMDLimit` does; so a batch goes slower also where nothing ends any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_LIMIT = 2.0
# How much longer than the long average an end may take before the limit goes down.
TOLERANCE = 1.5
SMOOTHING = 0.2
# The weight of one end in the long average, once there have been as many as make it up.
LONG = 0.01
BACK_OFF = 0.5
# A run is overdue when it has taken so many times the long average.
OVERDUE = 4.0
# Where nothing has ended yet, nobody knows what long is; it is said again only after so much longer.
NEVER_OVERDUE_BEFORE_S = 10.0


@dataclass
class Pace:
    """The limit of one batch, between 1 and its share."""

    share: int
    _limit: float = field(init=False)
    _long_s: float = 0.0
    _ended: int = 0
    _cut_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._limit = min(FIRST_LIMIT, self.share)

    @property
    def limit(self) -> int:
        """Runs at once, at least one."""
        return int(self._limit)

    def ended(self, elapsed_s: float, *, held: int) -> bool:
        """Takes the time that a run took to its end, of so many at once; tells whether that was slow."""
        self._ended += 1
        weight = max(LONG, 1 / self._ended)
        self._long_s += weight * (elapsed_s - self._long_s)
        if self._long_s > 2 * elapsed_s:
            # After a slow time the average follows sooner.
            self._long_s *= 0.95
        if held < self._limit / 2:
            return False  # That many were not tried.
        gradient = max(BACK_OFF, min(1.0, TOLERANCE * self._long_s / max(elapsed_s, 1e-3)))
        self._set(self._limit * (1 - SMOOTHING) + SMOOTHING * (self._limit * gradient + 1))
        return gradient < 1

    def overdue(self, oldest_s: float, *, now: float) -> bool:
        """Takes how long the oldest run has been under way; tells whether that is too long."""
        if oldest_s < max(OVERDUE * self._long_s, NEVER_OVERDUE_BEFORE_S):
            return False
        return self._cut(now, again_after_s=oldest_s / 2)

    def refused(self, *, now: float) -> bool:
        """Takes that the platform has no room for a run, or waits for what a run needs; tells whether that counted."""
        return self._cut(now, again_after_s=max(1.0, self._long_s))

    def _cut(self, now: float, *, again_after_s: float) -> bool:
        """Cuts the limit, once for all that is due to the same thing."""
        if now - self._cut_at < again_after_s:
            return False
        self._cut_at = now
        self._set(self._limit * BACK_OFF)
        return True

    def _set(self, limit: float) -> None:
        self._limit = min(float(self.share), max(1.0, limit))
