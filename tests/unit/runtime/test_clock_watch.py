"""A replica's clock against the database's: only what is certain counts as skew."""

from __future__ import annotations

import pytest

from services.runtime.engine.clock import ClockWatch
from services.runtime.errors import ClockOff


@pytest.mark.parametrize(
    ("before", "there", "after", "off"),
    [
        (1000.0, 1000.1, 1000.2, False),
        (1000.0, 1004.9, 1000.2, False),  # behind by less than is tolerated
        (1000.0, 995.1, 1000.2, False),  # ahead by less
        (1000.0, 1030.0, 1060.0, False),  # the answer took a minute
        (1000.0, 1005.3, 1000.2, True),
        (1000.0, 994.9, 1000.2, True),
        (4600.0, 1000.0, 4600.1, True),
    ],
)
def test_skew(before: float, there: float, after: float, off: bool) -> None:
    watch = ClockWatch(5)
    watch.note(before, there, after)
    assert watch.off is off
    if off:
        with pytest.raises(ClockOff, match="ask another"):
            watch.check()
    else:
        watch.check()


def test_a_clock_that_is_set_right_counts_again() -> None:
    watch = ClockWatch(5)
    watch.note(4600.0, 1000.0, 4600.1)
    assert watch.off
    watch.note(1001.0, 1001.0, 1001.1)
    assert not watch.off


def test_without_a_tolerance_no_clock_is_off() -> None:
    watch = ClockWatch(0)
    watch.note(4600.0, 1000.0, 4600.1)
    assert not watch.off
    watch.check()
