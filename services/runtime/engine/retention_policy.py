"""How long ended runs keep what they have: a setting, read also where nothing is removed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import ClassVar

from pydantic import ConfigDict

from services.kit.identifiers import uuid7_floor
from services.runtime.engine.partitions import week_of

DEFAULT = "default"


class Stage(IntEnum):
    """How far retention has got with a run, the column `pruned`."""

    HISTORY = 1
    CHECKPOINTS = 2
    EVENTS = 3
    RUNS = 4


@dataclass(frozen=True)
class RetentionPolicy:
    """How long an agent's ended runs keep what they have, counted from their end. 0 is for ever."""

    # What is misspelt in a setting is refused, and not passed over.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    history_minutes: float = 10
    checkpoint_days: float = 30
    event_days: float = 30
    run_days: float = 365
    decision_days: float = 365

    def __post_init__(self) -> None:
        """Raises ValueError when something would outlive what it rests on."""
        if min(vars(self).values()) < 0:
            raise ValueError("an age can't be negative; 0 keeps data forever")
        ages = [self.age_s(stage) for stage in Stage]
        if ages != sorted(ages):
            raise ValueError("history_minutes, checkpoint_days, event_days and run_days must not fall in this order")
        if _seconds(days=self.decision_days) < self.age_s(Stage.CHECKPOINTS):
            raise ValueError("decision_days must not be less than checkpoint_days: decisions outlive checkpoints")

    def age_s(self, stage: Stage) -> float:
        """Returns the age at which an ended run enters a stage; infinite for never."""
        return {
            Stage.HISTORY: _seconds(minutes=self.history_minutes),
            Stage.CHECKPOINTS: _seconds(days=self.checkpoint_days),
            Stage.EVENTS: _seconds(days=self.event_days),
            Stage.RUNS: _seconds(days=self.run_days),
        }[stage]

    def oldest_kept(self) -> str | None:
        """Returns the least run id whose decisions are kept, by the time in it; None when all are.

        It is the first of a week: they go with the partition that they lie in, up to a week late.
        """
        ended_before = self.decided_until()
        return None if ended_before is None else uuid7_floor(week_of(ended_before))

    def decided_until(self) -> datetime | None:
        """Returns the time before which a run has ended whose decisions go; None when all are kept."""
        age_s = _seconds(days=self.decision_days)
        return None if math.isinf(age_s) else datetime.now(UTC) - timedelta(seconds=age_s)


def _seconds(*, days: float = 0, minutes: float = 0) -> float:
    return days * 86_400 + minutes * 60 or math.inf
