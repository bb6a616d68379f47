"""What the guard counts and times."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS
from services.kit.telemetry.names import METRIC_PREFIX

SCREENINGS = Counter(METRIC_PREFIX + "guard_screenings_total", "Questions screened.", ["verdict", "reason", "stage"])
FAILURES = Counter(
    METRIC_PREFIX + "guard_failures_total",
    "Questions that got no verdict, by the error's reason and its cause; none of them was let through.",
    ["reason", "cause"],
)
MODEL_DURATION = Histogram(
    METRIC_PREFIX + "guard_model_duration_seconds",
    "Duration of the guard's model calls, by verdict; NONE when there was none.",
    ["verdict"],
    buckets=DURATION_BUCKETS,
)
