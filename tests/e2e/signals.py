"""Which service emits which signal, and which span leads to which: the telemetry of a `data_chat` run as data.

A new service, call or metric costs a line here; the tests ask questions and wait until every line is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[str, str]

EXECUTE = "signalbox.v1.RunService/ExecuteRun"
SCREEN = "signalbox.v1.GuardService/Screen"
CALL_TOOL = "signalbox.v1.ToolExecutorService/CallTool"
GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL = (f"signalbox-offline-{role}" for role in ("guard", "agent", "format"))


def path(*places: Place) -> list[tuple[Place, Place]]:
    """The edges of a path from a span down to the calls it caused."""
    return list(itertools.pairwise(places))


RUN: Place = ("runtime", "internal invoke_agent data_chat")
SCREENED: Place = ("runtime", "internal route data_chat.route_after_screen")
DECIDED: Place = ("runtime", "internal route data_chat.route_after_agent")
QUERIED: Place = ("runtime", "internal route data_chat.route_after_tools")

# Of a question that takes the agent one query, screened by the guard's model. First the way in, then under each
# decision the calls that it caused.
EDGES: tuple[tuple[Place, Place], ...] = (
    *path(
        ("gateway", f"server {EXECUTE}"),
        ("gateway", f"client {EXECUTE}"),
        ("runtime", f"server {EXECUTE}"),
        RUN,
        ("runtime", "internal node screen_question"),
        ("runtime", f"client {SCREEN}"),
        ("guard", f"server {SCREEN}"),
        ("guard", f"client chat {GUARD_MODEL}"),
        ("offline_model", f"server chat {GUARD_MODEL}"),
    ),
    *((RUN, decision) for decision in (SCREENED, DECIDED, QUERIED)),
    *path(
        SCREENED,
        ("runtime", "internal node agent"),
        ("runtime", "internal execute_tool get_few_shot_examples"),
        ("runtime", f"client {CALL_TOOL}"),
        ("sql_executor", f"server {CALL_TOOL}"),
    ),
    *path(
        ("runtime", "internal node agent"),
        ("runtime", f"client chat {AGENT_MODEL}"),
        ("offline_model", f"server chat {AGENT_MODEL}"),
    ),
    *path(
        DECIDED,
        ("runtime", "internal node tools"),
        ("runtime", "internal execute_tool execute_db_query"),
        ("runtime", f"client {CALL_TOOL}"),
    ),
    *path(
        QUERIED,
        ("runtime", "internal node format_answer"),
        ("runtime", f"client chat {FORMAT_MODEL}"),
        ("offline_model", f"server chat {FORMAT_MODEL}"),
    ),
)

# The first edge that a question blocked by the deterministic screen does not have.
SCREENED_BY_MODEL = (("guard", f"server {SCREEN}"), ("guard", f"client chat {GUARD_MODEL}"))


@dataclass(frozen=True)
class LogLine:
    """A line that a service writes for a run, and the ids that it carries."""

    service: str
    event: str
    ids: tuple[str, ...]


# The question is screened before the first decision, and the gateway has the run from its stream alone.
LOG_LINES: tuple[LogLine, ...] = (
    LogLine("gateway", "call served", ("correlation_id", "trace_id", "span_id")),
    LogLine("runtime", "routed", ("run_id", "correlation_id", "decision_id", "trace_id", "span_id", "agent")),
    LogLine("runtime", "run ended", ("run_id", "correlation_id", "trace_id", "span_id", "agent")),
    LogLine("guard", "screened", ("run_id", "correlation_id", "trace_id", "span_id", "agent")),
    LogLine("guard", "call served", ("run_id", "correlation_id", "trace_id", "span_id", "agent")),
    LogLine("sql_executor", "call served", ("run_id", "correlation_id", "decision_id", "trace_id", "span_id")),
    LogLine("offline_model", "completed", ("run_id", "correlation_id", "decision_id", "trace_id", "span_id")),
)


@dataclass(frozen=True)
class Series:
    """A time series that a service has after an answered and a blocked question; `traced`: with exemplars."""

    service: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    traced: bool = False


DECISIONS = "signalbox_routing_decisions_total"
RPC_COUNT, RPC_BUCKET = (f"signalbox_rpc_server_duration_seconds_{part}" for part in ("count", "bucket"))
MODEL_COUNT, MODEL_BUCKET = (f"signalbox_model_call_duration_seconds_{part}" for part in ("count", "bucket"))
TOOL_COUNT, TOOL_BUCKET = (f"signalbox_tool_call_duration_seconds_{part}" for part in ("count", "bucket"))

SERIES: tuple[Series, ...] = (
    Series("gateway", RPC_COUNT, {"method": f"/{EXECUTE}", "code": "OK"}),
    Series("gateway", RPC_BUCKET, {"method": f"/{EXECUTE}", "code": "OK"}, traced=True),
    Series("gateway", "signalbox_gateway_open_streams", {"method": "ExecuteRun"}),
    Series("runtime", RPC_BUCKET, {"method": f"/{EXECUTE}", "code": "OK"}, traced=True),
    Series("runtime", DECISIONS, {"router": "data_chat.route_after_screen", "rule": "allowed"}, traced=True),
    Series("runtime", DECISIONS, {"router": "data_chat.route_after_screen", "rule": "blocked"}, traced=True),
    Series("runtime", DECISIONS, {"agent": "data_chat", "rule": "tool_calls", "destination": "tools"}, traced=True),
    Series("runtime", DECISIONS, {"rule": "query_executed", "destination": "format_answer"}, traced=True),
    Series("runtime", "signalbox_runs_ended_total", {"state": "SUCCEEDED", "stop_reason": ""}),
    Series("runtime", "signalbox_runs_ended_total", {"state": "SUCCEEDED", "stop_reason": "blocked"}),
    Series("runtime", "signalbox_run_duration_seconds_count", {"agent": "data_chat"}),
    Series("runtime", MODEL_COUNT, {"purpose": "agent", "outcome": "ok"}),
    Series("runtime", MODEL_BUCKET, {"purpose": "format_answer", "outcome": "ok"}, traced=True),
    Series("runtime", "signalbox_model_tokens_total", {"purpose": "agent", "direction": "input"}),
    Series("runtime", "signalbox_model_tokens_total", {"purpose": "agent", "direction": "output"}),
    Series("runtime", TOOL_COUNT, {"tool": "get_few_shot_examples", "outcome": "ok"}),
    Series("runtime", TOOL_BUCKET, {"tool": "execute_db_query", "outcome": "ok"}, traced=True),
    Series("guard", RPC_BUCKET, {"method": f"/{SCREEN}", "code": "OK"}, traced=True),
    Series("guard", "signalbox_guard_screenings_total", {"verdict": "ALLOW", "reason": "allowed", "stage": "model"}),
    Series("guard", "signalbox_guard_screenings_total", {"verdict": "BLOCK", "stage": "deterministic"}),
    Series("guard", MODEL_BUCKET, {"purpose": "security_guard", "outcome": "ok"}, traced=True),
    Series("sql_executor", RPC_BUCKET, {"method": f"/{CALL_TOOL}", "code": "OK"}, traced=True),
    Series("sql_executor", "signalbox_tool_calls_served_total", {"tool": "execute_db_query", "outcome": "ok"}),
    Series("sql_executor", "signalbox_sql_query_duration_seconds_count", {"outcome": "ok"}),
    Series("offline_model", "signalbox_offline_model_completions_total", {}),
)
