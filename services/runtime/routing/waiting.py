"""Waiting for what is away: a node whose dependency does not answer runs again later, and its run gives its slot back.

Unavailable is not wrong. A wait counts against the run's wall time, and what models were paid for in vain against its
budget; both travel, with what they were told for good, on the run's row until the node's step has taken them over.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphBubbleUp

from services.runtime.errors import DependencyAway
from services.runtime.routing.calls import OK
from services.runtime.routing.recorder import CallRecord

WAIT = "wait"
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0
# What is away may ask for more, but not for a year, nor for a time that the database has no word for.
LONGEST_ASKED_FOR_S = 600.0
# A wait is this much of the time that has gone into waiting: who has waited long need not look often, and nobody waits
# for much longer than the dependency was away.
SHARE = 0.5


_found_away: ContextVar[set[str] | None] = ContextVar("found_away", default=None)


def found_away() -> set[str]:
    """Returns the dependencies that the run of the present context has found away by calls of its own at this node.

    Outside of a node nothing is remembered from one call to the next.
    """
    found = _found_away.get()
    return set() if found is None else found


@contextmanager
def remembering_away(attempts: Sequence[CallRecord]) -> Iterator[None]:
    """Remembers what calls inside the context find away, and what those of earlier attempts at the node did."""
    own = {call["name"] for call in attempts if call["kind"] == WAIT and not call.get("held_back")}
    token = _found_away.set(own)
    try:
        yield
    finally:
        _found_away.reset(token)


@dataclass(frozen=True)
class Wait:
    """What a run waits for, and how long; `attempts` is what its node has cost so far, the wait included."""

    dependency: str
    cause: str
    delay_s: float
    attempts: list[CallRecord]


class RunWaits(GraphBubbleUp):
    """Leaves the graph, at the checkpoint that the node started from."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(f"waits for {wait.dependency}")
        self.wait = wait


def wait_for(
    away: DependencyAway,
    *,
    attempts: Sequence[CallRecord],
    calls: Sequence[CallRecord],
    elapsed_s: float,
    left_s: float,
) -> Wait | None:
    """Returns how to wait after an attempt of `elapsed_s` that made `calls`; None when no time is left for it.

    `attempts` are those before it; `left_s` is what the run's wall time leaves, this attempt already taken off.
    """
    if left_s < max(FIRST_WAIT_S, away.least_wait_s):
        return None
    paid = [call for call in calls if call.get("holds") or _is_paid(call)]
    waited_s = sum(call["elapsed_ms"] for call in attempts if call["kind"] == WAIT) / 1000
    longest = min(max(waited_s * SHARE, FIRST_WAIT_S), LONGEST_WAIT_S)
    # Those that failed together come back apart.
    delay_s = random.uniform(longest * 0.75, longest)  # noqa: S311 - spreads load
    # The attempt after it must find some time left: a node that finds none may end in good order, as if all were well.
    asked_for_s = min(away.retry_after_s or 0.0, LONGEST_ASKED_FOR_S)
    delay_s = max(min(max(delay_s, asked_for_s), left_s / 2), away.least_wait_s)
    unpaid_ms = max(0.0, elapsed_s * 1000 - sum(call["elapsed_ms"] for call in paid))
    waited = CallRecord(
        kind=WAIT,
        name=away.dependency,
        outcome=away.cause,
        elapsed_ms=round(unpaid_ms + delay_s * 1000, 3),
        input_tokens=0,
        output_tokens=0,
    )
    if away.held_back:
        waited["held_back"] = True
    return Wait(away.dependency, away.cause, delay_s, _merged([*attempts, *paid, waited]))


def why_away(attempts: Sequence[CallRecord], dependency: str) -> str:
    """Returns the cause of the last wait for a dependency; an empty string where there was none.

    A call that the run's own end cuts short tells less of what is away.
    """
    waits = (call["outcome"] for call in reversed(attempts) if (call["kind"], call["name"]) == (WAIT, dependency))
    return next(waits, "")


def waited_for(attempts: Sequence[CallRecord]) -> DependencyAway | None:
    """Returns what the last of some attempts has waited for; None where it did not wait."""
    last = attempts[-1] if attempts else None
    return DependencyAway(last["name"], last["outcome"]) if last and last["kind"] == WAIT else None


def left_of(spend: Mapping[str, Any], budget: Mapping[str, Any] | None) -> float:
    """Returns the seconds of wall time that a budget leaves; infinite where it sets no limit."""
    limit: float = budget["wall_time_s"] if budget else 0.0
    left: float = limit - spend["wall_time_s"]
    return left if limit > 0 else math.inf


def _is_paid(call: CallRecord) -> bool:
    return call["kind"] == "model" and (call["outcome"] == OK or _tokens(call) > 0)


def _tokens(call: CallRecord) -> int:
    return call["input_tokens"] + call["output_tokens"]


def _merged(attempts: Sequence[CallRecord]) -> list[CallRecord]:
    """Makes one record of waits for the same thing that follow one another: a long outage stays a short list."""
    merged: list[CallRecord] = []
    for call in attempts:
        last = merged[-1] if merged else None
        same = last is not None and all(last[key] == call[key] for key in ("kind", "name"))
        if last is not None and same and call["kind"] == WAIT:
            merged[-1] = {**call, "elapsed_ms": round(last["elapsed_ms"] + call["elapsed_ms"], 3)}
            if "held_back" not in last:
                merged[-1].pop("held_back", None)
        else:
            merged.append(call)
    return merged
