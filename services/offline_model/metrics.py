"""What the offline model counts."""

from __future__ import annotations

from prometheus_client import Counter

from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import METRIC_PREFIX

COMPLETIONS = Counter(
    METRIC_PREFIX + "offline_model_completions_total", "Completions, by model and finish reason.", ["model", "reason"]
)
ERRORS = Counter(METRIC_PREFIX + "offline_model_errors_total", "Requests refused, by HTTP status.", ["status"])

from_zero(ERRORS, ["400", "404", "500"])
