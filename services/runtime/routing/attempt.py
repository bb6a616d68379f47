"""An attempt at a node: its cost, that of those before it that were in vain, and how the run waits for the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from signalbox_routing.table import State

from services.runtime.errors import DependencyAway
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.state import NOTHING_SPENT, Spend, add_spend, spend_of
from services.runtime.routing.waiting import RunWaits, left_of, wait_for


@dataclass
class Attempt:
    """An attempt at a node: what the run had spent before it, and what those before it cost in vain."""

    state: State
    before: list[CallRecord]
    calls: list[CallRecord]
    started: float = field(default_factory=time.perf_counter)
    ended: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began, until its end if it has come to that."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.started

    def end(self) -> None:
        """Stops its clock, once: what it cost is told the same to everybody."""
        self.ended = self.ended or time.perf_counter()

    @property
    def cost(self) -> Spend:
        """What this attempt and those before it cost."""
        return add_spend(cost_of(self.before), spend_of(self.calls, self.elapsed_s))

    def wait(self, away: DependencyAway) -> RunWaits | None:
        """Returns how the run waits; None when its wall time is spent."""
        unsaved_s = self.elapsed_s if away.unsaved_s is None else away.unsaved_s
        spend = add_spend(self.state.get("spend"), cost_of(self.before))
        spend = add_spend(spend, {**NOTHING_SPENT, "wall_time_s": away.saved_s + unsaved_s})
        left_s = left_of(spend, self.state.get("budget"))
        wait = wait_for(away, attempts=self.before, calls=self.calls, elapsed_s=unsaved_s, left_s=left_s)
        return RunWaits(wait) if wait else None


def cost_of(attempts: list[CallRecord]) -> Spend:
    """Returns what attempts in vain cost, the waits between them included."""
    return spend_of(attempts, sum(call["elapsed_ms"] for call in attempts) / 1000)
