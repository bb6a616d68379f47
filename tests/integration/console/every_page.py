"""Every page that the console has, by its routes, and a gateway with something to show on each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlencode

from google.protobuf.json_format import ParseDict
from signalbox.v1 import (
    agents_pb2,
    caller_pb2,
    costs_pb2,
    graph_editor_pb2,
    outcome_pb2,
    policy_pb2,
    recorded_answers_pb2,
    runs_pb2,
    table_pb2,
    tools_pb2,
)
from starlette.applications import Starlette
from starlette.routing import Route

from services.console.app import make_app
from services.console.gateway import Gateway
from services.console.periods import HOURS
from services.console.settings import ConsoleSettings
from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.fake_gateway import FakeGateway, waiting

THREAD = "talk"
# Runs that end with a result of each agent.
RESULTS = {
    agent: f"{digit}{RUN_ID[1:]}"
    for digit, agent in zip(
        "abcde", ("graph_editor", "incident_investigation", "sast_triage", "sast_investigation", "graph"), strict=True
    )
}
PLACES = {"run_id": RUN_ID, "thread_id": THREAD}
# What leads elsewhere, or is no page.
NO_PAGES = frozenset(("/", "/runs/{run_id}/events", "/static/{name}"))
# What pages show only when they are asked for it, and pages of errors.
MORE: Mapping[str, Sequence[Mapping[str, str]]] = {
    "/runs": ({"state": "failed"}, {"state": "no_such"}),
    "/new": ({"agent": "data_chat"}, {"agent": "hosted"}),
    "/routes": ({"agent": "data_chat"},),
    "/rules": ({"agent": "data_chat"},),
    "/decisions": ({"router": "data_chat.route_after_agent"}, {"until": "1e9"}),
    "/policies": ({"agent": "data_chat", "limit.max_iterations": "1"},),
    "/metrics": ({"agent": "data_chat"},),
    "/nowhere": ({},),
}


def addresses() -> list[str]:
    """Returns the address of every page; a route with a part that is not in `PLACES` is an error, not left out."""
    app = make_app(cast("Gateway", None), ConsoleSettings(), asyncio.Event())
    assert isinstance(app, Starlette)
    paths = [
        route.path
        for route in app.routes
        if isinstance(route, Route) and "GET" in (route.methods or ()) and route.path not in NO_PAGES
    ]
    plain = [path.format(**PLACES) for path in paths]
    plain += [f"/runs/{run_id}" for run_id in RESULTS.values()]
    return [*plain, *(f"{path}?{urlencode(asked)}" for path, each in MORE.items() for asked in each)]


def fill(gateway: FakeGateway) -> None:
    """Puts something of each kind into a gateway."""
    run = gateway.runs[RUN_ID]
    run.thread_id, run.title, run.correlation_id = THREAD, "Which of my devices are hot?", "c-1"
    run.labels["team"] = "blue"
    answer = run.output.data_chat
    answer.answer, answer.sql_query = "Four of them.", "SELECT device, temperature FROM readings"
    answer.rows.columns.add(name="device", type=table_pb2.COLUMN_TYPE_TEXT)
    answer.rows.columns.add(name="temperature", type=table_pb2.COLUMN_TYPE_INT)
    for number in range(4):
        row = answer.rows.rows.add()
        row.values.add(text_value=f"pump-{number}")
        row.values.add(int_value=20 + number)
    for number, (state, outcome) in enumerate(_ENDS):
        other = runs_pb2.Run()
        other.CopyFrom(run)
        other.run_id, other.state, other.outcome = f"{number + 1}{RUN_ID[1:]}", state, outcome
        other.title, other.stop_reason = f"How warm was pump {number} yesterday?", _STOPPED.get(outcome, "")
        gateway.runs[other.run_id] = other
    for agent, run_id in RESULTS.items():
        other = runs_pb2.Run(run_id=run_id, agent=agent, state=runs_pb2.RUN_STATE_SUCCEEDED, output=result_of(agent))
        other.create_time.CopyFrom(run.create_time)
        gateway.runs[run_id] = other
    gateway.question = waiting(roles=["approver"], assignee="bob")
    change = gateway.question.graph_change_set.nodes.add(kind=graph_editor_pb2.CHANGE_KIND_UPDATED)
    change.node.label, change.node.key = "Ticket", "T-1"
    change.before.update({"status": "open", "summary": "Fix login button"})
    change.after.update({"status": "closed", "summary": "Fix login button"})
    gateway.hosted = [_hosted()]
    gateway.state.values.update({"messages": [{"type": "human", "content": "How many?"}], "count": 2})
    gateway.heard = _heard()
    for step, ended in zip(gateway.shown.story.route, ("UNAVAILABLE", "DATABASE_DOWN", "http_503"), strict=False):
        for call in step.calls:
            call.outcome = ended
    wait = gateway.shown.story.waits.add(dependency="sql_executor", cause="DATABASE_DOWN")
    wait.begin_time.CopyFrom(run.create_time)
    wait.end_time.CopyFrom(run.create_time)
    gateway.policy.limits.add(name="max_iterations", origin=policy_pb2.LIMIT_ORIGIN_FILE).value.number_value = 3
    gateway.counts = [
        runs_pb2.DecisionCount(
            router="data_chat.route_after_agent", rule=rule, destination=to, node="agent", count=many
        )
        for rule, to, many in (("tool_calls", "tools", 40), ("iteration_limit", "format_answer", 3))
    ]
    for each in gateway.counts:
        each.begin_time.FromSeconds(run.create_time.seconds)
    gateway.run_counts = _run_counts()
    gateway.shown.story.costs.CopyFrom(_costs())


def result_of(agent: str) -> runs_pb2.RunOutput:
    """Returns a result of an agent with all that its block shows."""
    output = runs_pb2.RunOutput()
    if agent == "graph_editor":
        ParseDict(_CHANGED, output.graph_editor)
    elif agent == "incident_investigation":
        ParseDict(_INCIDENT, output.incident_investigation)
    elif agent == "graph":
        output.graph.agent = "mine"
        ParseDict({"messages": _SAID, "total": 5}, output.graph.output)
    else:
        ParseDict(_VERDICT, getattr(output, agent))
    return output


_CITED = {"file": "src/pool.py", "first_line": 3, "last_line": 4, "commit": "c0ffee" + "0" * 34, "quote": "max = 2"}
_CHANGED = {
    "answer": "The service has another port.",
    "change_set": {
        "nodes": [
            {
                "kind": "CHANGE_KIND_UPDATED",
                "node": {"label": "Service", "key": "web"},
                "before": {"port": 80, "same": 1},
                "after": {"port": 81, "same": 1},
            }
        ]
    },
    "steps": [{"operation_id": "1", "tool": "update_node", "result": "applied", "text": "port is 81"}],
}
_INCIDENT = {
    "root_cause": "The pool is too small.",
    "confidence": 0.8,
    "validated": True,
    "problems": ["Another pool is as small."],
    "explanation": "Requests wait for a connection.",
    "evidence": [
        {"claim": "The limit is 2.", "holds": True, "found": "max = 2  # was 20", "code": _CITED},
        {
            "claim": "It calls the api.",
            "problem": "no such edge",
            "graph_path": {"nodes": [{"label": "S", "key": "w"}]},
        },
        {"claim": "Waits are long.", "holds": True, "query": {"query": "SELECT 1", "row": {"wait_s": "4"}}},
        {"claim": "It is deployed.", "holds": True, "tool": {"tool": "deployments", "arguments": {"of": "web"}}},
    ],
    "timeline": [{"time": "2026-03-02T09:30:00Z", "event": "The limit was lowered."}],
    "recommendations": ["Enlarge it."],
}
_VERDICT = {
    "verdict": "VERDICT_NEEDS_REVIEW",
    "confidence": 0.7,
    "confidence_calibrated": True,
    "justification": "It runs a shell.",
    "evidence": [{"claim": "The name is joined.", **_CITED}],
    "open_question": "Who calls it?",
    "read": [{"file": "src/pool.py", "first_line": 1, "last_line": 40}],
    "notes": ["The snippet reads otherwise."],
}
_SAID = [
    {"type": "human", "content": "2 + 3?"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "add", "args": {"a": 2}}]},
    {"type": "ai", "content": "5"},
]


def _hosted() -> agents_pb2.Agent:
    agent = agents_pb2.Agent(name="hosted")
    kinds: dict[str, Any] = {
        "messages": {"type": "array", "items": {"title": "Message"}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "How many at most."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["fast", "slow"]},
        "dry": {"type": "boolean"},
    }
    agent.input_schema.update({"type": "object", "required": ["messages"], "properties": kinds})
    return agent


def _heard() -> list[recorded_answers_pb2.RecordedAnswer]:
    said = {"choices": [{"message": {"role": "assistant", "content": "Four of them."}}]}
    given = tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(text="n: 1"))
    away = recorded_answers_pb2.RecordedFailure(kind="http_503", message="away")
    answers = (
        ("model", "chat", json.dumps(said).encode()),
        ("sql_executor", "CallTool execute_db_query", given.SerializeToString()),
        ("person", "answer", b'"approve"'),
    )
    heard = [recorded_answers_pb2.RecordedAnswer(source=of, method=by, answer=answer) for of, by, answer in answers]
    heard[0].request.update({"messages": [{"role": "user", "content": "How many devices are hot?"}], "tools": []})
    heard[1].request.update({"query": "SELECT count(*) AS n FROM devices"})
    return [*heard, recorded_answers_pb2.RecordedAnswer(source="model", method="chat", failure=away)]


def _run_counts() -> runs_pb2.CountRunsResponse:
    counted = runs_pb2.CountRunsResponse(run_count=12, is_partial=True)
    for place in (2, 20, 23):
        at = HOURS.begin() + place * HOURS.interval_s
        usage = caller_pb2.TokenUsage(input_tokens=4000, output_tokens=300, total_tokens=4300)
        whole = counted.intervals.add(count=4, model_calls=9, token_usage=usage)
        whole.begin_time.FromSeconds(at)
        whole.duration.median_s, whole.duration.p95_s = 2, 8
        whole.wait.median_s, whole.wait.p95_s = 0.1, 0.5
        for state, outcome in _ENDS:
            each = counted.counts.add(
                agent="data_chat", state=state, outcome=outcome, count=1, model_calls=2, token_usage=usage
            )
            each.begin_time.FromSeconds(at)
    counted.costs.CopyFrom(_costs())
    return counted


def _costs() -> costs_pb2.Costs:
    usage = caller_pb2.TokenUsage(input_tokens=12_000, output_tokens=900, total_tokens=12_900)
    costs = costs_pb2.Costs(currency="EUR")
    costs.models.add(model="large", model_calls=27, token_usage=usage, cached_tokens=5000, cost=0.0312)
    costs.models.add(model="of-the-guard", model_calls=3, token_usage=usage)
    return costs


_STOPPED = {outcome_pb2.OUTCOME_NOT_ANSWERED: "iteration_limit", outcome_pb2.OUTCOME_NOT_DONE: "budget_exhausted"}
_ENDS: Sequence[tuple[runs_pb2.RunState, outcome_pb2.Outcome]] = (
    (runs_pb2.RUN_STATE_RUNNING, outcome_pb2.OUTCOME_UNSPECIFIED),
    (runs_pb2.RUN_STATE_SUCCEEDED, outcome_pb2.OUTCOME_BLOCKED),
    (runs_pb2.RUN_STATE_SUCCEEDED, outcome_pb2.OUTCOME_NOT_ANSWERED),
    (runs_pb2.RUN_STATE_NEEDS_REVIEW, outcome_pb2.OUTCOME_NOT_DONE),
    (runs_pb2.RUN_STATE_FAILED, outcome_pb2.OUTCOME_NOT_ANSWERED),
    (runs_pb2.RUN_STATE_CANCELLED, outcome_pb2.OUTCOME_UNSPECIFIED),
)
