"""What the service for batches counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from services.batches.records import ENDED_ITEMS
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import METRIC_PREFIX

BATCHES_PACED = Gauge(METRIC_PREFIX + "batches_paced", "Batches that this replica paces.")
RUNS_HELD = Gauge(METRIC_PREFIX + "batch_runs_held", "Runs of batches under way that this replica paces.")
PACE = Gauge(METRIC_PREFIX + "batch_pace", "Runs at once that those batches hold themselves to, together.")
STALLED = Gauge(
    METRIC_PREFIX + "batch_stalled_seconds",
    "How long no item has ended of a batch that this replica paces and that has items left, the longest.",
)
ITEMS_ENDED = from_zero(
    Counter(METRIC_PREFIX + "batch_items_ended_total", "Items of batches that ended, by state.", ["state"]),
    sorted(state.value.lower() for state in ENDED_ITEMS),
)
VERDICTS = Counter(
    METRIC_PREFIX + "batch_verdicts_total",
    "Verdicts of runs of batches on findings whose truth is known, by rule of the analyser, truth and verdict.",
    ["rule", "truth", "verdict"],
)
SLOWED = from_zero(
    Counter(
        METRIC_PREFIX + "batch_slowed_total",
        "Times that a batch went slower: the platform refused a run, one waited for what is away, or runs took long.",
        ["cause"],
    ),
    ("refused", "away", "slow"),
)
