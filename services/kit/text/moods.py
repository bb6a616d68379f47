"""How well a run goes for its caller, in one word, by which lists and pages colour it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from signalbox.v1 import runs_pb2

from services.kit.outcome import REACHED, Outcome


class Mood(StrEnum):
    """What runs are coloured by; pages have these words as classes of their style."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    BLOCKED = "blocked"
    SOFT = "soft"
    LIVE = "live"


_OF_STATE: Mapping[int, Mood] = {
    runs_pb2.RUN_STATE_SUCCEEDED: Mood.GOOD,
    runs_pb2.RUN_STATE_FAILED: Mood.BAD,
    runs_pb2.RUN_STATE_CANCELLED: Mood.SOFT,
    runs_pb2.RUN_STATE_NEEDS_REVIEW: Mood.WARN,
}
# Of what is not reached, and is no matter for somebody to look at.
_OF_OUTCOME: Mapping[Outcome, Mood] = {
    Outcome.BLOCKED: Mood.BLOCKED,
    Outcome.DECLINED: Mood.SOFT,
    Outcome.CANCELLED: Mood.SOFT,
}


def mood(run: runs_pb2.Run) -> Mood:
    """Returns how a run is coloured: by what came of it for its caller, and not by how the machine ended."""
    outcome = Outcome.of(run.outcome)
    by_state = _OF_STATE.get(run.state, Mood.LIVE)
    if outcome is None or by_state in (Mood.LIVE, Mood.BAD):
        return by_state
    return Mood.GOOD if outcome in REACHED else _OF_OUTCOME.get(outcome, Mood.WARN)
