"""Retention policies: nothing outlives what it rests on."""

from __future__ import annotations

import math

import pytest

from services.runtime.engine.retention_policy import RetentionPolicy, Stage


def test_by_default_only_the_last_checkpoint_stays_soon_after_the_end() -> None:
    policy = RetentionPolicy()
    assert policy.age_s(Stage.HISTORY) == 600
    assert policy.age_s(Stage.HISTORY) < policy.age_s(Stage.CHECKPOINTS) <= policy.age_s(Stage.RUNS)


def test_zero_keeps_for_ever() -> None:
    policy = RetentionPolicy(checkpoint_days=0, event_days=0, run_days=0, decision_days=0)
    assert math.isinf(policy.age_s(Stage.CHECKPOINTS))
    assert policy.oldest_kept() is None


@pytest.mark.parametrize(
    ("ages", "message"),
    [
        ({"run_days": 10}, "must not fall"),
        ({"event_days": 10}, "must not fall"),
        ({"checkpoint_days": 0}, "must not fall"),
        ({"decision_days": 10}, "decisions outlive checkpoints"),
        ({"run_days": -1}, "negative"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(ages: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RetentionPolicy(**ages)
