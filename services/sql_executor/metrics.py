"""What the SQL executor counts."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from services.kit.metrics import DURATION_BUCKETS
from services.kit.names import METRIC_PREFIX

QUERY_DURATION = Histogram(
    METRIC_PREFIX + "sql_query_duration_seconds",
    "Duration of queries in the user's database, by outcome.",
    ["outcome"],
    buckets=DURATION_BUCKETS,
)
QUERIES_ABANDONED = Counter(
    METRIC_PREFIX + "sql_queries_abandoned_total",
    "Queries that outlasted their statement timeout, by what ended them: `cancelled` or `disconnected`.",
    ["by"],
)
POOL_WAIT = Histogram(
    METRIC_PREFIX + "sql_pool_wait_seconds",
    "Time that queries waited for a database connection.",
    buckets=DURATION_BUCKETS,
)
