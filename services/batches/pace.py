"""How many runs a batch holds at once: as many as bring the most, and fewer at once where nothing ends any more.

What so many at once bring is told by Little's law: their number, by the time that each takes to its end. One more is
tried after as many ends as make a trial; where fewer have brought clearly more, the batch goes back to those, and waits
longer before it tries again. Where runs suddenly take far longer or shorter than before with as many, what was known
counts no more. What is refused, and a time in which nothing ends, cut the number by half.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_LIMIT = 2
# Ends that make a trial, since how long runs take differs; of few at once, who take their time to end, so many each.
TRIAL = 12
TRIAL_EACH = 4
# Of the limit, how much was held where that was tried.
FULL = 0.75
# How much more fewer at once must bring, for the batch to go back to them.
BETTER = 1.25
# How many times as long or as short as before is another time.
OTHER = 3.0
# Trials for which it stays with a number after others were worse, at most.
LONGEST_STAY = 16
# Nothing ends any more when no run has for so many times as long as one takes. Before anybody knows how long that is,
# after so long, and then each time after twice as long.
OVERDUE = 4.0
FIRST_OVERDUE_S = 60.0


@dataclass
class Pace:
    """The limit of one batch, between 1 and its share. Times are of a clock that only goes forward, in seconds."""

    share: int
    # Runs at once, at least one.
    limit: int = field(init=False)
    # How long a run takes with so many at once.
    _takes_s: dict[int, float] = field(default_factory=dict)
    _trial: list[float] = field(default_factory=list)
    _since: float = float("-inf")
    _overdue_s: float = FIRST_OVERDUE_S
    _stayed: int = 0
    _stay: int = 1
    _cut_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.limit = min(FIRST_LIMIT, self.share)

    def ended(self, elapsed_s: float, *, held: int, now: float) -> bool:
        """Takes the time that a run took to its end, of so many at once; tells whether the batch goes slower then."""
        # What was begun with more, or ends with fewer, says nothing of so many.
        if now - elapsed_s < self._since or held < FULL * self.limit:
            return False
        self._trial.append(max(elapsed_s, 1e-3))
        if len(self._trial) < min(TRIAL, TRIAL_EACH * self.limit):
            return False
        takes_s = sum(self._trial) / len(self._trial)
        self._trial.clear()
        self._overdue_s = FIRST_OVERDUE_S
        known_s = self._takes_s.get(self.limit, takes_s)
        if known_s / OTHER < takes_s < known_s * OTHER:
            self._takes_s[self.limit] = (known_s + takes_s) / 2
            return self._decide(now)
        self._takes_s = {self.limit: takes_s}
        self._stay = 1
        if takes_s > known_s:
            self._set(self.limit // 2, now)
        return takes_s > known_s

    def _decide(self, now: float) -> bool:
        best = max(self._takes_s, key=self._brings)
        if best < self.limit and self._brings(best) > BETTER * self._brings(self.limit):
            self._stay, self._stayed = min(2 * self._stay, LONGEST_STAY), 0
            self._set(best, now)
            return True
        self._stayed += 1
        if self._stayed >= self._stay:
            self._stayed = self._stay - 1  # The next is tried at once, where this one is no worse.
            # By half as many more, until others were worse.
            self._set(self.limit + (1 if self._stay > 1 else max(1, self.limit // 2)), now)
        return False

    def _brings(self, held: int) -> float:
        return held / self._takes_s[held]

    def overdue(self, quiet_s: float, *, now: float) -> bool:
        """Takes for how long no run of those under way has ended; tells whether that is too long."""
        takes_s = self._takes_s.get(self.limit, max(self._takes_s.values(), default=0.0))
        if quiet_s < max(OVERDUE * takes_s, self._overdue_s):
            return False
        self._takes_s.clear()
        self._overdue_s = 2 * quiet_s
        return self._cut(now, again_after_s=0.0)

    def refused(self, *, now: float) -> bool:
        """Takes that the platform has no room for a run, or waits for what a run needs; tells whether that counted."""
        return self._cut(now, again_after_s=max(1.0, *self._takes_s.values(), 0.0))

    def _cut(self, now: float, *, again_after_s: float) -> bool:
        """Cuts the limit, once for all that is due to the same thing."""
        if now - self._cut_at < again_after_s:
            return False
        self._cut_at = now
        self._set(self.limit // 2, now)
        return True

    def _set(self, limit: int, now: float) -> None:
        limit = max(1, min(self.share, limit))
        if limit != self.limit:
            self.limit, self._since = limit, now
            self._trial.clear()
