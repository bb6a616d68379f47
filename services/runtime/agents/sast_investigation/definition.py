"""The agent `sast_investigation`: one finding of a batch, through research, analysis and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import sast_pb2

from services.runtime.agents.assignment import Assignment
from services.runtime.agents.code_review.calibration import Calibration
from services.runtime.agents.code_review.case import OUTCOMES, Settled, begun, outcome_of, output_fields
from services.runtime.agents.code_review.code_tools import CodeTools
from services.runtime.agents.code_review.finding import finding_ids, finding_title
from services.runtime.agents.definition import AgentDefinition
from services.runtime.agents.sast_investigation.checklist import load_checklists
from services.runtime.agents.sast_investigation.graph import make_graph
from services.runtime.agents.sast_investigation.nodes import SastInvestigationNodes
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import Research
from services.runtime.agents.sast_investigation.routing import APPROVED
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import CODE_EXECUTOR, EVALUATOR
from services.runtime.routing.state import Budget


def _wire(connections: Connections, policy: SastInvestigationPolicy) -> SastInvestigationNodes:
    settings, code = connections.settings, CodeTools(connections.tools(CODE_EXECUTOR))
    return SastInvestigationNodes(
        code=code,
        research=Research(
            code=code,
            # Research retries in its own middleware, and each attempt is a call of its own.
            model=connections.model("research", 0),
            policy=policy,
            retries=settings.model_retries,
        ),
        analysis_model=connections.model("analysis"),
        evaluator=connections.evaluator,
        checklists=load_checklists(),
        policy=policy,
        calibration=Calibration(settings.calibrated_models),
    )


def begin(
    agent_input: sast_pb2.SastInvestigationInput, _assignment: Assignment, _policy: SastInvestigationPolicy
) -> dict[str, Any]:
    """Returns the finding and where its code is."""
    return {**begun(agent_input), "fetched_files": [], "tool_call_history": []}


def result(state: Mapping[str, Any], _agent_input: sast_pb2.SastInvestigationInput) -> sast_pb2.SastInvestigationOutput:
    """Returns the verdict; unless it was approved it is `NEEDS_REVIEW`."""
    critique = state.get("critique")
    return sast_pb2.SastInvestigationOutput(
        **output_fields(
            state,
            _standing(state),
            lacking="approved",
            said=" ".join([critique["reason"], *critique["missing"]]) if critique else "",
            missing=critique["missing"] if critique else (),
        ),
        iterations=state.get("iteration_count", 0) + 1,
        fetched_files=state.get("fetched_files") or [],
    )


def _standing(state: Mapping[str, Any]) -> Settled | None:
    """Returns the last draft, if it was approved."""
    critique, draft = state.get("critique"), state.get("draft")
    if not draft or critique is None or critique["outcome"] != APPROVED:
        return None
    return Settled(
        verdict=draft["verdict"],
        confidence=draft["confidence"],
        justification=draft["justification"],
        claims=draft["claims"],
    )


AGENT = AgentDefinition(
    name="sast_investigation",
    description="Brings one finding of a batch to a verdict, through research, analysis and evaluation.",
    input=sast_pb2.SastInvestigationInput,
    output=sast_pb2.SastInvestigationOutput,
    policy=SastInvestigationPolicy,
    budget=Budget(model_calls=150, tool_calls=600, tokens=4_000_000, wall_time_s=3600.0),
    nodes=SastInvestigationNodes,
    graph=make_graph,
    wire=_wire,
    begin=begin,
    result=result,
    outcome=lambda state: outcome_of(_standing(state)),
    outcomes=OUTCOMES,
    peers=(CODE_EXECUTOR, EVALUATOR),
    models=("research", "analysis"),
    ids=finding_ids,
    title=finding_title,
    prompts=("code_review",),
)
