"""The circuit breaker lets nothing through while a dependency is away, but a probe now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from services.runtime.calls.breaker import Breaker, BreakerPolicy
from services.runtime.errors import DependencyAway
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.waiting import WAIT, remembering_away

POLICY = BreakerPolicy(failures=3, open_s=1.0, longest_open_s=4.0)
# Longer than any time that it stays open for at first.
A_WHILE_S = 1.5
CAUSE = "UNAVAILABLE"
ASKED, HELD_BACK = "asked", "held back"


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("oracle", POLICY, clock)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The calls here are of a run that knows that the oracle is away, but where a test says otherwise."""
    with remembering_away([waited()]):
        yield


def waited(**others: Any) -> CallRecord:
    """A wait for the oracle, as it travels with a run."""
    return cast(
        CallRecord,
        {
            "kind": WAIT,
            "name": "oracle",
            "outcome": CAUSE,
            "elapsed_ms": 1.0,
            "input_tokens": 0,
            "output_tokens": 0,
            **others,
        },
    )


def fail(breaker: Breaker) -> str:
    """Makes a call that finds nobody; returns whether anybody was asked."""
    with pytest.raises(DependencyAway) as caught, breaker.passing():
        raise DependencyAway("oracle", CAUSE)
    assert caught.value.cause == CAUSE
    return HELD_BACK if caught.value.held_back else ASKED


def test_it_opens_after_failures_in_a_row(breaker: Breaker) -> None:
    assert [fail(breaker) for _ in range(4)] == [ASKED] * 3 + [HELD_BACK]


def test_an_answer_in_between_begins_the_count_anew(breaker: Breaker) -> None:
    for _ in range(5):
        fail(breaker)
        fail(breaker)
        with breaker.passing():
            pass
    assert not breaker.is_open


def test_a_no_is_an_answer(breaker: Breaker) -> None:
    for _ in range(5):
        with pytest.raises(ValueError, match="no"), breaker.passing():
            raise ValueError("no")
    assert not breaker.is_open


def test_what_is_away_behind_it_is_none_of_its_failures(breaker: Breaker) -> None:
    for _ in range(POLICY.failures):
        with pytest.raises(DependencyAway), breaker.passing():
            raise DependencyAway("what the oracle asks", CAUSE)
    assert not breaker.is_open


def test_one_probe_now_and_then_and_an_answer_closes_it(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.now += A_WHILE_S
    with breaker.passing():
        assert fail(breaker) == HELD_BACK  # while the probe is under way
        clock.now += A_WHILE_S
        assert fail(breaker) == ASKED  # but not for as long as it takes
    assert not breaker.is_open
    assert fail(breaker) == ASKED
    assert not breaker.is_open  # the count began anew


def test_a_failed_probe_keeps_it_open_for_longer_up_to_a_bound(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    for _ in range(6):
        clock.now += 100
        assert fail(breaker) == ASKED
        clock.now += POLICY.open_s
        assert fail(breaker) == HELD_BACK
    clock.now += POLICY.longest_open_s * 1.25
    assert fail(breaker) == ASKED


def test_a_cancelled_probe_shows_nothing_and_makes_room_for_another(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    clock.now += A_WHILE_S
    with pytest.raises(asyncio.CancelledError), breaker.passing():
        raise asyncio.CancelledError
    assert breaker.is_open
    clock.now += A_WHILE_S
    with breaker.passing():
        pass
    assert not breaker.is_open


def test_failures_of_calls_that_began_before_it_opened_do_not_keep_it_open_longer(
    breaker: Breaker, clock: Clock
) -> None:
    for _ in range(2):
        fail(breaker)
    early = breaker.passing()
    early.__enter__()
    fail(breaker)
    clock.now += 0.5
    assert not early.__exit__(DependencyAway, DependencyAway("oracle", CAUSE), None)
    clock.now += A_WHILE_S - 0.5
    with breaker.passing():
        pass
    assert not breaker.is_open


def test_a_run_that_has_not_found_it_away_itself_is_let_through(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker)
    assert fail(breaker) == HELD_BACK
    with remembering_away([waited(held_back=True)]), breaker.passing():
        pass
    assert not breaker.is_open, "what was away for some answers others"


def test_a_first_call_that_fails_is_the_run_s_last_until_a_probe(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        fail(breaker)
    with remembering_away([]):
        assert [fail(breaker) for _ in range(3)] == [ASKED, HELD_BACK, HELD_BACK]
    clock.now += A_WHILE_S
    assert fail(breaker) == ASKED, "and does not put off the probe"


def test_few_first_calls_are_let_through_at_once(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker)
    with ExitStack() as under_way:
        for _ in range(POLICY.first_calls):
            under_way.enter_context(remembering_away([]))
            under_way.enter_context(breaker.passing())
        with remembering_away([]):
            assert fail(breaker) == HELD_BACK
