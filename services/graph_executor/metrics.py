"""What the graph executor counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero
from services.kit.telemetry.names import METRIC_PREFIX

KINDS = ("search", "cypher_read", "cypher_write", "element", "change", "record")
OUTCOMES = ("ok", "refused", "timeout", "overtaken", "full", "away", "failed")
CHANGES = ("change", "undo", "cypher")

QUERY_DURATION = from_zero(
    Histogram(
        METRIC_PREFIX + "graph_query_duration_seconds",
        "Duration of what is asked of the graph database, the wait for a connection included, by kind.",
        ["kind"],
        buckets=DURATION_BUCKETS,
    ),
    KINDS,
)
QUERIES = from_zero(
    Counter(
        METRIC_PREFIX + "graph_queries_total",
        "What was asked of the graph database, by kind and outcome; `away` is a server that did not answer.",
        ["kind", "outcome"],
    ),
    KINDS,
    OUTCOMES,
)
QUERIES_ACTIVE = Gauge(
    METRIC_PREFIX + "graph_queries_active", "What is asked of the graph database now, or waits for a connection."
)
CONNECTIONS_MAX = Gauge(METRIC_PREFIX + "graph_connections_max", "Connections that a replica opens to it at the most.")
CHANGES_MADE = from_zero(
    Counter(
        METRIC_PREFIX + "graph_changes_total",
        "Changes that were committed: by a tool, by taking one back, or by a caller's Cypher.",
        ["by"],
    ),
    CHANGES,
)
QUERIES_OVERDUE = Counter(
    METRIC_PREFIX + "graph_queries_overdue_total",
    "Callers' queries that the graph database neither answered nor stopped in time.",
)
