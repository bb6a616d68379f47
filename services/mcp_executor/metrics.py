"""Metrics of the MCP executor; those of its tools are the kit's."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS
from services.kit.telemetry.names import METRIC_PREFIX

_PREFIX = METRIC_PREFIX + "mcp_"

TOOL_STATES = ("accepted", "changed", "gone")
TOOLS = Gauge(
    _PREFIX + "tools",
    "Tools that agents may call, by server and how it had them when it was last asked: accepted, changed, gone.",
    ["server", "state"],
)
LEFT_OUT = Gauge(
    _PREFIX + "tools_left_out",
    "Tools of the file of servers that agents are not offered, by server: not accepted, or not to be used.",
    ["server"],
)
CALL_OUTCOMES = ("ok", "refused", "unknown", "away", "busy")
CALLS = Counter(
    _PREFIX + "calls_total",
    "Calls of a server's tools, by server and outcome: ok, refused (there, or before it was asked), unknown (it writes "
    "and got no answer), away, busy (as many under way as may be).",
    ["server", "outcome"],
)
CALL_DURATION = Histogram(
    _PREFIX + "call_duration_seconds",
    "Duration of calls of a server's tools, connecting included, by server.",
    ["server"],
    buckets=DURATION_BUCKETS,
)
AWAY = Gauge(
    _PREFIX + "server_away", "Whether a server counts as away, and its calls are held back, by server.", ["server"]
)
TOKENS = Counter(
    _PREFIX + "token_exchanges_total",
    "Exchanges of a run's token for its caller's at a server, by server and outcome: given, refused, away.",
    ["server", "outcome"],
)
