"""Which service emits which signal, and which span leads to which: the telemetry of runs as data.

A new service, call or metric costs a line here; the tests ask questions and wait until every line is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[str, str]

EXECUTE, CREATE = (f"signalbox.v1.RunService/{method}" for method in ("ExecuteRun", "CreateRun"))
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

EDITED: Place = ("runtime", "internal invoke_agent graph_editor")
ESCALATED: Place = ("runtime", "internal route graph_editor.route_after_escalate")
APPROVED: Place = ("runtime", "internal route graph_editor.route_after_ask_person")

# Of a goal that a person approves: a claim before the answer, and one after it that goes on below what led to it.
APPROVED_EDGES: tuple[tuple[Place, Place], ...] = (
    *path(
        ("gateway", f"server {EXECUTE}"),
        ("gateway", f"client {EXECUTE}"),
        ("runtime", f"server {EXECUTE}"),
        EDITED,
    ),
    *((EDITED, decision) for decision in (ESCALATED, APPROVED)),
    *path(ESCALATED, ("runtime", "internal node ask_person")),
    *path(
        APPROVED,
        ("runtime", "internal node call_tool"),
        ("runtime", "internal execute_tool delete_node"),
        ("runtime", f"client {CALL_TOOL}"),
        ("graph_executor", f"server {CALL_TOOL}"),
    ),
)


def called(node: str, tool: str, executor: str) -> list[tuple[Place, Place]]:
    """The edges from a node down to the executor of a tool that it calls."""
    return path(
        ("runtime", f"internal node {node}"),
        ("runtime", f"internal execute_tool {tool}"),
        ("runtime", f"client {CALL_TOOL}"),
        (executor, f"server {CALL_TOOL}"),
    )


def asked(node: str, role: str) -> list[tuple[Place, Place]]:
    """The edges from a node down to the model of a role that it asks."""
    model = f"signalbox-offline-{role}"
    return path(
        ("runtime", f"internal node {node}"),
        ("runtime", f"client chat {model}"),
        ("offline_model", f"server chat {model}"),
    )


# Of an incident whose cause is a deployment.
VALIDATE = "signalbox.v1.EvaluatorService/ValidateCause"
INCIDENT_EDGES: tuple[tuple[Place, Place], ...] = (
    *path(
        ("runtime", f"server {EXECUTE}"),
        ("runtime", "internal invoke_agent incident_investigation"),
        ("runtime", "internal node screen_incident"),
        ("runtime", f"client {SCREEN}"),
        ("guard", f"server {SCREEN}"),
    ),
    *path(
        ("runtime", "internal route incident_investigation.route_after_screen"),
        ("runtime", "internal node agent"),
    ),
    *path(("runtime", "internal route incident_investigation.route_after_agent"), ("runtime", "internal node tools")),
    *asked("agent", "incident"),
    *called("tools", "query_graph", "graph_executor"),
    *called("tools", "execute_db_query", "sql_executor"),
    *called("tools", "read_file", "code_executor"),
    *path(
        ("runtime", "internal node validation"),
        ("runtime", f"client {VALIDATE}"),
        ("evaluator", f"server {VALIDATE}"),
    ),
)

# Of a finding whose code is fetched before it is judged.
EVALUATE = "signalbox.v1.EvaluatorService/EvaluateInvestigation"
TRIAGED: Place = ("runtime", "internal invoke_agent sast_triage")
TRIAGE_EDGES: tuple[tuple[Place, Place], ...] = (
    *path(
        ("gateway", f"server {EXECUTE}"),
        ("gateway", f"client {EXECUTE}"),
        ("runtime", f"server {EXECUTE}"),
        TRIAGED,
        ("runtime", "internal route sast_triage.route_agent_decision"),
        ("runtime", "internal node fetch_code"),
    ),
    *asked("agent", "triage"),
    *called("fetch_code", "fetch_code", "code_executor"),
    *path(
        ("runtime", "internal route sast_triage.route_agent_decision"),
        ("runtime", "internal node analyze_issue"),
    ),
    *path(
        TRIAGED,
        ("runtime", "internal node comprehensive_evaluation"),
        ("runtime", f"client {EVALUATE}"),
        ("evaluator", f"server {EVALUATE}"),
    ),
    *path(TRIAGED, ("runtime", "internal route sast_triage.route_after_evaluation")),
)

# Of the findings of a batch, all together.
CRITIQUE = "signalbox.v1.EvaluatorService/CritiqueVerdict"
BATCH_EDGES: tuple[tuple[Place, Place], ...] = (
    *path(
        ("batches", f"client {CREATE}"),
        ("runtime", f"server {CREATE}"),
        ("runtime", "internal invoke_agent sast_investigation"),
    ),
    *asked("research", "research"),
    *called("research", "fetch_code", "code_executor"),
    *asked("analysis", "analysis"),
    *path(
        ("runtime", "internal node evaluation"),
        ("runtime", f"client {CRITIQUE}"),
        ("evaluator", f"server {CRITIQUE}"),
        ("evaluator", "client chat signalbox-offline-evaluator"),
    ),
)

# Of a question that comes over HTTP. The gateway begins a trace of its own there, linked to this one.
WAIT_FOR_RUN: Place = ("http_api", "server POST /runs/wait")
HTTP_EDGES: tuple[tuple[Place, Place], ...] = (*path(WAIT_FOR_RUN, ("http_api", f"client {CREATE}")),)

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
    """A time series of a service after questions, one over HTTP, and an approved goal; `traced`: with exemplars."""

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
    Series("runtime", "signalbox_run_outcomes_total", {"outcome": "answered"}),
    Series("runtime", "signalbox_run_outcomes_total", {"outcome": "blocked"}),
    Series("runtime", "signalbox_run_duration_seconds_count", {"agent": "data_chat"}),
    Series("runtime", "signalbox_agent_tokens_total", {"agent": "data_chat", "direction": "output"}),
    Series("runtime", "signalbox_run_budget_used_ratio_count", {"agent": "data_chat", "budget": "tokens"}),
    Series("runtime", "signalbox_rpc_client_calls_total", {"code": "OK"}, traced=True),
    Series("runtime", "signalbox_database_connections", {"pool": "steps"}),
    Series("sql_executor", "signalbox_database_connections", {"pool": "reader"}),
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
    Series("graph_executor", RPC_BUCKET, {"method": f"/{CALL_TOOL}", "code": "OK"}, traced=True),
    Series("graph_executor", "signalbox_tool_calls_served_total", {"tool": "delete_node", "outcome": "ok"}),
    Series("runtime", "signalbox_questions_closed_total", {}),
    Series("http_api", "signalbox_http_api_request_duration_seconds_count", {"operation": "wait_run", "status": "200"}),
    Series("http_api", "signalbox_http_api_open_streams", {}),
    Series("http_api", "signalbox_http_api_streams_ended_total", {"end": "whole"}),
    Series("http_api", "signalbox_rpc_client_calls_total", {"code": "OK"}),
    Series("offline_model", "signalbox_offline_model_completions_total", {}),
)
