"""Prometheus: what every service counts. A service's own metrics are in its `metrics.py`."""

from __future__ import annotations

from opentelemetry import trace
from prometheus_client import Counter, Histogram

from services.kit.names import METRIC_PREFIX

# From a cached answer to a slow model, in seconds.
DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

RPC_DURATION = Histogram(
    METRIC_PREFIX + "rpc_server_duration_seconds",
    "Duration of calls served, by method and status code.",
    ["method", "code"],
    buckets=DURATION_BUCKETS,
)
RPC_ERRORS = Counter(
    METRIC_PREFIX + "rpc_server_errors_total", "Calls refused or failed, by reason.", ["method", "reason"]
)
MODEL_DURATION = Histogram(
    METRIC_PREFIX + "model_call_duration_seconds",
    "Duration of model calls, by purpose and outcome.",
    ["purpose", "outcome"],
    buckets=DURATION_BUCKETS,
)
MODEL_TOKENS = Counter(
    METRIC_PREFIX + "model_tokens_total", "Tokens of model calls, by purpose and direction.", ["purpose", "direction"]
)


def exemplar() -> dict[str, str] | None:
    """Returns the current trace as an exemplar, or None when there is none."""
    span = trace.get_current_span().get_span_context()
    return {"trace_id": f"{span.trace_id:032x}"} if span.is_valid and span.trace_flags.sampled else None
