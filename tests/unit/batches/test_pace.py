"""How many runs a batch holds: more while they end as fast as before, fewer when they don't."""

from __future__ import annotations

from services.batches.pace import Pace


def ended(pace: Pace, elapsed_s: float, count: int) -> None:
    for _ in range(count):
        pace.ended(elapsed_s, held=pace.limit)


def test_a_batch_begins_with_two_and_comes_to_its_share() -> None:
    pace = Pace(8)
    assert pace.limit == 2
    ended(pace, 1.0, 100)
    assert pace.limit == 8


def test_a_share_is_never_passed_and_one_run_always_held() -> None:
    pace = Pace(1)
    assert pace.limit == 1
    ended(pace, 1.0, 50)
    assert pace.limit == 1
    assert pace.refused(now=0)
    assert pace.limit == 1


def test_runs_that_take_longer_than_before_bring_it_down_and_it_recovers() -> None:
    pace = Pace(16)
    ended(pace, 1.0, 200)
    assert pace.limit == 16
    ended(pace, 20.0, 15)
    slow = pace.limit
    assert slow <= 4
    ended(pace, 1.0, 300)
    assert pace.limit == 16


def test_what_is_not_tried_does_not_raise_it() -> None:
    pace = Pace(64)
    ended(pace, 1.0, 20)
    before = pace.limit
    for _ in range(100):
        pace.ended(1.0, held=1)
    assert pace.limit == before


def test_many_refusals_at_once_count_as_one() -> None:
    pace = Pace(16)
    ended(pace, 1.0, 200)
    assert pace.refused(now=10.0)
    assert not pace.refused(now=10.1)
    assert pace.limit == 8
    assert pace.refused(now=20.0)
    assert pace.limit == 4


def test_it_goes_down_where_nothing_ends_any_more() -> None:
    pace = Pace(16)
    ended(pace, 1.0, 200)
    assert not pace.overdue(9.0, now=9.0)
    # Said once, it is said again when the oldest has taken twice as long.
    for now, limit in ((10.0, 8), (14.0, 8), (20.0, 4), (40.0, 2), (80.0, 1)):
        pace.overdue(now, now=now)
        assert pace.limit == limit, now
