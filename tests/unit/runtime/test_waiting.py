"""How long a run waits, and what a wait costs."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from services.runtime.errors import DependencyAway
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.waiting import FIRST_WAIT_S, LONGEST_ASKED_FOR_S, LONGEST_WAIT_S, SHARE, WAIT, wait_for

AWAY = DependencyAway("oracle", "UNAVAILABLE")


def call(kind: str, outcome: str = "ok", tokens: int = 0) -> CallRecord:
    return CallRecord(kind=kind, name="it", outcome=outcome, elapsed_ms=100.0, input_tokens=tokens, output_tokens=0)


def test_waits_grow_with_the_outage_up_to_a_bound_and_are_one_record() -> None:
    attempts: list[CallRecord] = []
    delays = []
    for _ in range(40):
        wait = wait_for(AWAY, attempts=attempts, calls=[], elapsed_s=0.0, left_s=10_000.0)
        assert wait is not None
        waited_s = attempts[0]["elapsed_ms"] / 1000 if attempts else 0.0
        assert wait.delay_s <= max(FIRST_WAIT_S, waited_s * SHARE)
        delays.append(wait.delay_s)
        attempts = wait.attempts
    assert max(delays) <= LONGEST_WAIT_S
    assert delays[-1] > delays[0]
    [record] = attempts
    assert (record["kind"], record["name"], record["outcome"]) == (WAIT, "oracle", "UNAVAILABLE")
    assert sum(delays) == pytest.approx(record["elapsed_ms"] / 1000, abs=0.001)


def test_those_that_failed_together_come_back_apart() -> None:
    waits = [wait_for(AWAY, attempts=[], calls=[], elapsed_s=0.0, left_s=10.0) for _ in range(20)]
    delays = sorted(wait.delay_s for wait in waits if wait)
    assert len(delays) == 20
    assert all(first < second for first, second in pairwise(delays))


def test_a_wait_leaves_time_for_the_attempt_after_it() -> None:
    asking = DependencyAway("oracle", "http_429")
    asking.retry_after_s = 30.0
    wait = wait_for(asking, attempts=[], calls=[], elapsed_s=1.0, left_s=FIRST_WAIT_S)
    assert wait is not None
    assert wait.delay_s == FIRST_WAIT_S / 2
    assert wait_for(AWAY, attempts=[], calls=[], elapsed_s=1.0, left_s=FIRST_WAIT_S * 0.99) is None


def test_what_the_dependency_asks_for_is_given() -> None:
    asking = DependencyAway("oracle", "http_429")
    asking.retry_after_s = 30.0
    wait = wait_for(asking, attempts=[], calls=[], elapsed_s=0.0, left_s=100.0)
    assert wait is not None
    assert wait.delay_s == 30.0


@pytest.mark.parametrize("asked_for_s", [1764079200000.0, 1e20, math.inf])
def test_nobody_is_waited_for_without_end(asked_for_s: float) -> None:
    """Not where the wall time has no limit, either: some say when instead of how long."""
    asking = DependencyAway("oracle", "http_429")
    asking.retry_after_s = asked_for_s
    wait = wait_for(asking, attempts=[], calls=[], elapsed_s=0.0, left_s=math.inf)
    assert wait is not None
    assert wait.delay_s == LONGEST_ASKED_FOR_S


def test_only_what_models_were_paid_for_is_charged_beside_the_time() -> None:
    failed = call("model", "DEPENDENCY_AWAY")
    held = call("guard", "allowed")
    held["holds"] = True
    calls = [call("tool"), call("model"), failed, call("model", "cut", tokens=9), call("guard", "blocked"), held]
    wait = wait_for(AWAY, attempts=[call("model")], calls=calls, elapsed_s=0.4, left_s=10.0)
    assert wait is not None
    # What the guard has let through holds after the wait, too.
    assert [record["kind"] for record in wait.attempts] == ["model", "model", "model", "guard", WAIT]
    assert wait.attempts[-1]["elapsed_ms"] == pytest.approx(100 + wait.delay_s * 1000, abs=0.01)
