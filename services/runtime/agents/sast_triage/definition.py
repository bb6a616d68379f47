"""The agent `sast_triage`: one finding, to a verdict with evidence."""

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
from services.runtime.agents.sast_triage.graph import make_graph
from services.runtime.agents.sast_triage.nodes import SastTriageNodes
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.state import EvaluationResult
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import CODE_EXECUTOR, EVALUATOR
from services.runtime.routing.state import Budget


def _wire(connections: Connections, policy: SastTriagePolicy) -> SastTriageNodes:
    return SastTriageNodes(
        code=CodeTools(connections.tools(CODE_EXECUTOR)),
        evaluator=connections.evaluator,
        model=connections.model("triage"),
        policy=policy,
        calibration=Calibration(connections.settings.calibrated_models),
    )


def begin(agent_input: sast_pb2.SastTriageInput, _assignment: Assignment, _policy: SastTriagePolicy) -> dict[str, Any]:
    """Returns the finding and where its code is."""
    return {**begun(agent_input), "error_attempts": 0}


def result(state: Mapping[str, Any], _agent_input: sast_pb2.SastTriageInput) -> sast_pb2.SastTriageOutput:
    """Returns the verdict; without a final evaluation it is `NEEDS_REVIEW`."""
    evaluated = state.get("evaluation_result")
    return sast_pb2.SastTriageOutput(
        **output_fields(
            state,
            _standing(state),
            lacking="final",
            said=evaluated["justification"] if evaluated else "",
            missing=evaluated["exploration_gaps"] if evaluated else (),
        ),
        iterations=state.get("iteration_count", 0),
    )


def _standing(state: Mapping[str, Any]) -> Settled | None:
    """Returns the final evaluation, if there is one."""
    final: EvaluationResult | None = state.get("evaluation_result")
    if final is None or not final["is_final"]:
        return None
    return Settled(
        verdict=final["verdict"],
        confidence=final["confidence"],
        justification=final["justification"],
        claims=final["evidence"],
    )


AGENT = AgentDefinition(
    name="sast_triage",
    description="Brings one finding of a static analyser to a verdict, with evidence.",
    input=sast_pb2.SastTriageInput,
    output=sast_pb2.SastTriageOutput,
    policy=SastTriagePolicy,
    budget=Budget(model_calls=80, tool_calls=60, tokens=1_500_000, wall_time_s=900.0),
    nodes=SastTriageNodes,
    graph=make_graph,
    wire=_wire,
    begin=begin,
    result=result,
    outcome=lambda state: outcome_of(_standing(state)),
    outcomes=OUTCOMES,
    peers=(CODE_EXECUTOR, EVALUATOR),
    models=("triage",),
    ids=finding_ids,
    title=finding_title,
    prompts=("code_review",),
)
