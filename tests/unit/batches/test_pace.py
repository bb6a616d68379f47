"""How many runs a batch holds: as many as bring the most, and fewer where nothing ends any more."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from services.batches.pace import Pace

Takes = Callable[[int], float]


class Batch:
    """A batch whose runs take as long as a server makes of so many at once; time moves as runs end.

    `spread` is that of the lognormal distribution of how long each takes, whose mean stays the same.
    """

    def __init__(self, takes_s: Takes, *, share: int = 8, spread: float = 0.0, pace: Pace | None = None) -> None:
        self.pace = pace or Pace(share)
        self.takes_s = takes_s
        self.now = self._ended_at = 0.0
        self._spread = spread
        self._random = random.Random(7)  # noqa: S311 - spreads times
        self._begun: list[tuple[float, float]] = []

    def run(self, seconds: float) -> int:
        """Goes on for so long, as the pacer does, which looks twice a second; returns how many runs ended."""
        done, until = 0, self.now + seconds
        while self.now < until:
            while len(self._begun) < self.pace.limit:
                takes_s = self.takes_s(len(self._begun) + 1)
                takes_s *= self._random.lognormvariate(-(self._spread**2) / 2, self._spread)
                heapq.heappush(self._begun, (self.now + takes_s, self.now))
            if self._begun[0][0] <= self.now + 0.5:
                self.now, since = heapq.heappop(self._begun)
                self.pace.ended(self.now - since, held=len(self._begun) + 1, now=self.now)
                self._ended_at, done = self.now, done + 1
            else:
                self.now += 0.5
                oldest = min(since for _, since in self._begun)
                self.pace.overdue(self.now - max(oldest, self._ended_at), now=self.now)
        return done


class Fixed(Pace):
    """A pace that is none."""

    def __post_init__(self) -> None:
        self.limit = self.share

    def _set(self, limit: int, now: float) -> None:
        del limit, now


def room_for_all(_: int) -> float:
    return 2.0


def shared(held: int) -> float:
    """A server that brings as much with two as with any more."""
    return max(2.0, float(held))


def collapses(held: int) -> float:
    """A server that is best with two, and brings a thirtieth of that with eight."""
    return max(2.0, 2.0 * (held / 2) ** 3)


def test_a_batch_begins_with_two_and_comes_to_its_share() -> None:
    batch = Batch(room_for_all)
    assert batch.pace.limit == 2
    batch.run(120)
    assert batch.pace.limit == 8


def test_a_share_is_never_passed_and_one_run_always_held() -> None:
    batch = Batch(room_for_all, share=1)
    batch.run(120)
    assert batch.pace.limit == 1
    assert batch.pace.refused(now=batch.now)
    assert batch.pace.limit == 1


@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize(("takes_s", "best"), [(room_for_all, 8), (shared, 8), (collapses, 2)])
def test_it_brings_most_of_what_the_best_number_would(takes_s: Takes, best: int, spread: float) -> None:
    paced = Batch(takes_s, spread=spread).run(1800)
    assert paced > 0.75 * Batch(takes_s, pace=Fixed(best), spread=spread).run(1800)
    if best < 8:
        assert paced > 10 * Batch(takes_s, pace=Fixed(8), spread=spread).run(1800)


def test_it_comes_down_where_a_server_becomes_slow_with_many_and_up_again() -> None:
    batch = Batch(room_for_all)
    batch.run(300)
    batch.takes_s = collapses
    batch.run(600)
    assert batch.pace.limit <= 4
    batch.takes_s = room_for_all
    batch.run(300)
    assert batch.pace.limit == 8


def test_where_all_has_become_slower_it_tries_fewer_and_finds_that_as_many_bring_more() -> None:
    batch = Batch(room_for_all)
    batch.run(300)
    batch.takes_s = lambda _: 20.0
    limits = []
    for _ in range(900):
        batch.run(1)
        limits.append(batch.pace.limit)
    assert min(limits) < 8
    assert limits[-1] == 8


def test_what_is_not_tried_does_not_raise_it() -> None:
    pace = Pace(64)
    for now in range(100):
        pace.ended(1.0, held=1, now=now)
    assert pace.limit == 2


def test_many_refusals_at_once_count_as_one() -> None:
    batch = Batch(room_for_all, share=16)
    batch.run(600)
    pace, now = batch.pace, batch.now
    assert pace.refused(now=now)
    assert not pace.refused(now=now + 0.1)
    assert pace.limit == 8
    assert pace.refused(now=now + 10)
    assert pace.limit == 4


def test_it_goes_down_where_nothing_ends_any_more() -> None:
    batch = Batch(room_for_all, share=16)
    batch.run(600)
    pace = batch.pace
    assert not pace.overdue(59.0, now=batch.now + 59)
    # Said once, it is said again when nothing has ended for twice as long.
    for quiet_s, limit in ((60.0, 8), (90.0, 8), (120.0, 4), (240.0, 2), (480.0, 1)):
        pace.overdue(quiet_s, now=batch.now + quiet_s)
        assert pace.limit == limit, quiet_s


def test_one_run_that_takes_long_among_others_slows_nothing_down() -> None:
    batch = Batch(room_for_all)
    long = iter([10_000.0])
    batch.run(300)
    batch.takes_s = lambda _: next(long, 2.0)
    batch.run(300)
    assert batch.pace.limit >= 7
