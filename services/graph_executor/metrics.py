"""What the graph executor counts."""

from __future__ import annotations

from prometheus_client import Counter

from services.kit.telemetry.names import METRIC_PREFIX

QUERIES_OVERDUE = Counter(
    METRIC_PREFIX + "graph_queries_overdue_total",
    "Callers' queries that the graph database neither answered nor stopped in time.",
)
