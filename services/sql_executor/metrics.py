"""What the SQL executor counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero
from services.kit.telemetry.names import METRIC_PREFIX

QUERY_DURATION = Histogram(
    METRIC_PREFIX + "sql_query_duration_seconds",
    "Duration of queries in the user's database, by outcome.",
    ["outcome"],
    buckets=DURATION_BUCKETS,
)
QUERIES_ABANDONED = Counter(
    METRIC_PREFIX + "sql_queries_abandoned_total",
    "Queries that outlasted their statement timeout, by what ended them: `cancelled`, `itself` or `disconnected`.",
    ["by"],
)
QUERIES_OVERDUE = Gauge(
    METRIC_PREFIX + "sql_queries_overdue",
    "Queries that neither their timeout nor a cancel request ended; each still holds its connection.",
)
POOL_WAIT = Histogram(
    METRIC_PREFIX + "sql_pool_wait_seconds",
    "Time that queries waited for a database connection.",
    buckets=DURATION_BUCKETS,
)

from_zero(QUERIES_ABANDONED, ["cancelled", "itself", "disconnected"])
from_zero(QUERY_DURATION, ["ok", "error", "timeout", "access_denied", "query_failed"])
