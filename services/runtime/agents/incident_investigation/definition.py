"""The agent `incident_investigation`: an incident, to its root cause."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from signalbox.v1 import incident_investigation_pb2

from services.kit.outcome import Outcome
from services.kit.telemetry.names import INCIDENT_ID
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.code_review.code_tools import CodeTools
from services.runtime.agents.definition import AgentDefinition
from services.runtime.agents.incident_investigation.evidence import EvidenceLookup
from services.runtime.agents.incident_investigation.graph import make_graph
from services.runtime.agents.incident_investigation.investigation_tools import InvestigationTools
from services.runtime.agents.incident_investigation.nodes import IncidentNodes
from services.runtime.agents.incident_investigation.policy import IncidentPolicy
from services.runtime.agents.incident_investigation.report import outcome, result
from services.runtime.agents.incident_investigation.state import INITIAL
from services.runtime.agents.run_key import RunKey
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import CODE_EXECUTOR, EVALUATOR, GRAPH_EXECUTOR, GUARD, SQL_EXECUTOR
from services.runtime.routing.state import Budget


def _wire(connections: Connections, policy: IncidentPolicy) -> IncidentNodes:
    sql, graph = connections.tools(SQL_EXECUTOR), connections.tools(GRAPH_EXECUTOR)
    code = CodeTools(connections.tools(CODE_EXECUTOR))
    return IncidentNodes(
        guard=connections.guard,
        tools=InvestigationTools(sql=sql, graph=graph, code=code, result_chars=policy.result_chars),
        evidence=EvidenceLookup(sql=sql, graph=graph, code=code),
        model=connections.model("incident"),
        evaluator=connections.evaluator,
        policy=policy,
    )


def begin(
    agent_input: incident_investigation_pb2.IncidentInvestigationInput, _assignment: Assignment, _policy: IncidentPolicy
) -> dict[str, Any]:
    """Returns the incident."""
    return {
        "incident": agent_input.SerializeToString(),
        "incident_id": agent_input.incident_id,
        "investigation_status": "in_progress",
        "investigation_phase": INITIAL,
        "confidence_score": 0.0,
    }


def run_key(agent_input: incident_investigation_pb2.IncidentInvestigationInput) -> RunKey:
    """Returns what makes an incident one run of its caller's: its id."""
    content = incident_investigation_pb2.IncidentInvestigationInput()
    content.CopyFrom(agent_input)
    content.ClearField("again")
    digest = hashlib.sha256(content.SerializeToString(deterministic=True)).hexdigest()
    return RunKey(agent_input.incident_id, digest, again=agent_input.again)


def _incident_id(state: Mapping[str, Any]) -> str:
    return str(state["incident_id"])


AGENT = AgentDefinition(
    name="incident_investigation",
    description="Brings an incident to its root cause, with evidence that is looked up.",
    input=incident_investigation_pb2.IncidentInvestigationInput,
    output=incident_investigation_pb2.IncidentInvestigationOutput,
    policy=IncidentPolicy,
    budget=Budget(model_calls=40, tool_calls=120, tokens=1_000_000, wall_time_s=900.0),
    nodes=IncidentNodes,
    graph=make_graph,
    wire=_wire,
    begin=begin,
    result=result,
    outcome=outcome,
    outcomes=(Outcome.CAUSE_FOUND, Outcome.NO_CAUSE_FOUND, Outcome.BLOCKED),
    peers=(GUARD, SQL_EXECUTOR, GRAPH_EXECUTOR, CODE_EXECUTOR, EVALUATOR),
    models=("incident",),
    ids={INCIDENT_ID: _incident_id},
    run_key=run_key,
    title=lambda agent_input: f"{agent_input.title} ({agent_input.service})",
)
