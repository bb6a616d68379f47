"""Metrics of the MCP executor; those of its tools are the kit's."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from services.kit.telemetry.names import METRIC_PREFIX

_PREFIX = METRIC_PREFIX + "mcp_"

TOOLS = Gauge(
    _PREFIX + "tools",
    "Tools that agents may call, by server and how it had them when it was last asked: accepted, changed, gone.",
    ["server", "state"],
)
TOKENS = Counter(
    _PREFIX + "token_exchanges_total",
    "Exchanges of a run's token for its caller's at a server, by server and outcome: given, refused, away.",
    ["server", "outcome"],
)
