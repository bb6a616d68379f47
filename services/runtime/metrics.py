"""What the runtime counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from services.kit.metrics import DURATION_BUCKETS
from services.kit.names import METRIC_PREFIX

RUNS_STARTED = Counter(METRIC_PREFIX + "runs_claimed_total", "Claims of runs, by agent and kind.", ["agent", "kind"])
RUNS_REFUSED = Counter(
    METRIC_PREFIX + "runs_refused_total", "Runs refused because their caller's quota was used up, by quota.", ["quota"]
)
RUNS_ENDED = Counter(
    METRIC_PREFIX + "runs_ended_total",
    "Runs that ended, by agent, state and stop reason.",
    ["agent", "state", "stop_reason"],
)
RUN_DURATION = Histogram(
    METRIC_PREFIX + "run_duration_seconds",
    "Time from creation to the end of a run.",
    ["agent"],
    buckets=DURATION_BUCKETS,
)
RUNS_ACTIVE = Gauge(METRIC_PREFIX + "runs_active", "Runs that this replica executes.")
CLAIMS_LOST = Counter(
    METRIC_PREFIX + "claims_lost_total", "Writes refused because another replica had claimed the run."
)
RUNS_TAKEN_OVER = Counter(METRIC_PREFIX + "runs_taken_over_total", "Runs of gone replicas made pending again.")
RUNS_ORPHANED = Gauge(
    METRIC_PREFIX + "runs_orphaned",
    "Runs without a live owner, as this replica's last sweep found them; more than a moment above 0 is a fault.",
)
CLOCK_SKEW = Gauge(
    METRIC_PREFIX + "clock_skew_seconds", "How far this replica's clock is ahead of the platform database's."
)
RUNS_GIVEN_BACK = Counter(
    METRIC_PREFIX + "runs_given_back_total", "Runs let go of for another replica, by reason.", ["reason"]
)
BACKGROUND_FAILURES = Counter(
    METRIC_PREFIX + "background_failures_total", "Rounds of background work that failed, by work.", ["work"]
)
TOOL_DURATION = Histogram(
    METRIC_PREFIX + "tool_call_duration_seconds",
    "Duration of tool calls, by tool and outcome.",
    ["tool", "outcome"],
    buckets=DURATION_BUCKETS,
)
ROWS_REMOVED = Counter(
    METRIC_PREFIX + "retention_rows_removed_total", "Rows that retention removed, by kind and agent.", ["kind", "agent"]
)
BYTES_REMOVED = Counter(
    METRIC_PREFIX + "retention_bytes_removed_total",
    "Bytes, as stored, that retention removed, by kind and agent.",
    ["kind", "agent"],
)
ROWS_STORED = Gauge(METRIC_PREFIX + "stored_rows", "Rows in the platform database, as Postgres estimates.", ["table"])
BYTES_STORED = Gauge(
    METRIC_PREFIX + "stored_bytes", "Bytes in the platform database with indexes, by table.", ["table"]
)
