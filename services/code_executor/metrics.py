"""Metrics of the code executor."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero
from services.kit.telemetry.names import METRIC_PREFIX

_PREFIX = METRIC_PREFIX + "code_"

SNAPSHOT_DURATION = Histogram(
    _PREFIX + "snapshot_duration_seconds",
    "Time to make the snapshot of a commit, fetch included, by kind of source.",
    ["source"],
    buckets=DURATION_BUCKETS,
)
CACHE_LOOKUPS = Counter(
    _PREFIX + "cache_lookups_total", "Look-ups in the cache, by kind and result.", ["kind", "result"]
)
CACHE_EVICTIONS = Counter(_PREFIX + "cache_evictions_total", "Entries evicted from the cache, by kind.", ["kind"])
CACHE_BYTES = Gauge(_PREFIX + "cache_bytes", "Bytes in the cache, as counted after the last build.")

from_zero(SNAPSHOT_DURATION, ["local", "remote"])
from_zero(CACHE_LOOKUPS, ["repositories", "snapshots"], ["hit", "miss"])
from_zero(CACHE_EVICTIONS, ["repositories", "snapshots"])
