"""A server that is away: its calls are held back, but for one now and then."""

from __future__ import annotations

import pytest

from services.mcp_executor.errors import ServerAway
from services.mcp_executor.outage import FAILURES, FIRST_S, LONGEST_S, Outage


class Clock:
    """Says the time that it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def is_held(outage: Outage) -> bool:
    try:
        outage.check()
    except ServerAway:
        return True
    return False


def test_calls_are_held_back_after_some_in_vain_and_one_finds_out() -> None:
    clock = Clock()
    outage = Outage("tickets", clock)
    for _ in range(FAILURES - 1):
        outage.failed("no connection")
    assert not is_held(outage)
    outage.failed("no connection")
    with pytest.raises(ServerAway) as held:
        outage.check()
    assert held.value.metadata == {"dependency": "MCP server tickets"}
    assert 0 < (held.value.retry_after_s or 0) <= FIRST_S * 1.25
    clock.now += FIRST_S * 1.25
    assert not is_held(outage)
    # The others wait for what that one finds.
    assert is_held(outage)
    outage.answered()
    assert not is_held(outage)


@pytest.mark.parametrize("failures", [20, 100])
def test_they_are_held_back_for_no_longer_than_that(failures: int) -> None:
    clock = Clock()
    outage = Outage("tickets", clock)
    for _ in range(failures):
        outage.failed("no connection")
    assert is_held(outage)
    clock.now += LONGEST_S * 1.25
    assert not is_held(outage)


def test_an_answer_between_makes_it_no_outage() -> None:
    outage = Outage("tickets")
    for _ in range(FAILURES):
        outage.failed("no connection")
        outage.answered()
    assert not is_held(outage)
