"""Prometheus: what every service counts. A service's own metrics are in its `metrics.py`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TypeVar

from opentelemetry import trace
from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from services.kit.telemetry.names import METRIC_PREFIX

MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)
# A time of creation beside each series is as many series again, which nothing reads.
disable_created_metrics()  # type: ignore[no-untyped-call]


def from_zero(metric: MetricT, *labels: Iterable[str]) -> MetricT:
    """Makes a metric's series for labels that are known ahead, each an iterable of values; returns the metric.

    A series that begins with its first increase hides that one: a rate needs the 0 before it.
    """
    for values in product(*labels):
        metric.labels(*values)
    return metric


# From a cached answer to a slow model, in seconds. Each bound is a series for all that is told apart by labels.
DURATION_BUCKETS = (0.01, 0.1, 0.5, 2, 5, 15, 60)

RPC_DURATION = Histogram(
    METRIC_PREFIX + "rpc_server_duration_seconds",
    "Duration of calls served, by method and status code.",
    ["method", "code"],
    # How many, how long on average, and the trace of a slow one; a quantile for each method is what nobody reads.
    buckets=(1,),
)
RPC_ERRORS = Counter(METRIC_PREFIX + "rpc_server_errors_total", "Calls refused or failed, by reason.", ["reason"])
RPC_FAULTS = Counter(
    METRIC_PREFIX + "rpc_server_faults_total", "Calls that an unforeseen error ended, by method.", ["method"]
)
RPC_ACTIVE = Gauge(
    METRIC_PREFIX + "rpc_server_calls_active", "Calls that are served now, open streams among them.", ["method"]
)
RPC_CLIENT_CALLS = Counter(
    METRIC_PREFIX + "rpc_client_calls_total", "Calls of other services that ended, by status code.", ["target", "code"]
)
RPC_CLIENT_DURATION = Histogram(
    METRIC_PREFIX + "rpc_client_duration_seconds",
    "Duration of calls of other services, their repeats included.",
    ["target"],
    buckets=DURATION_BUCKETS,
)
CERTIFICATE_EXPIRES = Gauge(
    METRIC_PREFIX + "certificate_expires_timestamp_seconds",
    "When the certificate that the service shows runs out; 0 without TLS.",
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
MODEL_ANSWERS_MENDED = Counter(
    METRIC_PREFIX + "model_answers_mended_total",
    "Things in models' answers whose form was not what was asked for and whose meaning was plain, by kind.",
    ["kind"],
)
MODEL_FALLBACKS = Counter(
    METRIC_PREFIX + "model_fallbacks_total",
    "Times that another model was asked in the place of one that failed, by role and kind of failure.",
    ["role", "cause"],
)
MODEL_PROMPTS_CUT = Counter(
    METRIC_PREFIX + "model_prompts_cut_total",
    "Answers of endpoints that say they read far less than they were sent, as those do that cut in silence.",
)


def model_calls_from_zero(*purposes: str) -> None:
    """Makes the series of model calls for what a service asks models."""
    from_zero(MODEL_DURATION, purposes, ["ok", "error"])
    from_zero(MODEL_TOKENS, purposes, ["input", "output"])


BUILD_INFO = Gauge(
    METRIC_PREFIX + "build_info", "Always 1; the labels say what is running here.", ["service", "version", "revision"]
)


MEMORY_LIMIT = Gauge(METRIC_PREFIX + "memory_limit_bytes", "Memory beyond which the service is ended; 0: no limit.")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def tell_build(service: str, revision: str, *, cgroup_limit: Path = _CGROUP_LIMIT) -> None:
    """Says what is running, and within how much memory; `revision` is the commit that it was built from, or empty."""
    BUILD_INFO.labels(service, version("signalbox"), revision or "unknown").set(1)
    limit = cgroup_limit.read_text().strip() if cgroup_limit.is_file() else ""
    MEMORY_LIMIT.set(int(limit) if limit.isdecimal() else 0)


def exemplar(of: trace.Span | None = None) -> dict[str, str] | None:
    """Returns the trace of a span, by default the current one, as an exemplar; None when it is not recorded."""
    span = (of or trace.get_current_span()).get_span_context()
    return {"trace_id": f"{span.trace_id:032x}"} if span.is_valid and span.trace_flags.sampled else None
