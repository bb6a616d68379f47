"""Pauses between attempts grow."""

from portal.telemetry import FIRST_PAUSE_S, pause_before


def test_pauses_grow_and_vary():
    assert FIRST_PAUSE_S < pause_before(2) < FIRST_PAUSE_S * 8
