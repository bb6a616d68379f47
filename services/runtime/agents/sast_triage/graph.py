"""The graph of `sast_triage`, and its way in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import runs_pb2, sast_pb2

from services.runtime.agents.agent import Assignment, token_usage
from services.runtime.agents.code_review.code_tools import FETCH_CODE, Source
from services.runtime.agents.code_review.draft import NEEDS_REVIEW, evidence_of, verdict_name
from services.runtime.agents.sast_triage.nodes import SastTriageNodes
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.routing import COMPREHENSIVE_EVALUATION, make_routers
from services.runtime.agents.sast_triage.state import SastTriageState
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.state import Budget

NAME = "sast_triage"
VERSION = "1"


def make_graph(nodes: SastTriageNodes, policy: SastTriagePolicy) -> AgentGraph:
    """Returns the graph: agent ⇄ fetch_code, agent → analyze_issue → comprehensive_evaluation → (agent | end)."""
    route_agent_decision, route_after_evaluation = make_routers(policy)
    return AgentGraph(
        name=NAME,
        version=VERSION,
        state=SastTriageState,
        entry="agent",
        nodes=(
            RoutedNode("agent", nodes.agent, route_agent_decision),
            RoutedNode("fetch_code", nodes.fetch_code, then="agent"),
            RoutedNode("analyze_issue", nodes.analyze_issue, then=COMPREHENSIVE_EVALUATION),
            RoutedNode(COMPREHENSIVE_EVALUATION, nodes.comprehensive_evaluation, route_after_evaluation),
        ),
        tools=frozenset({FETCH_CODE}),
    )


class SastTriage:
    """The agent `sast_triage`."""

    budget = Budget(model_calls=80, tool_calls=60, tokens=1_500_000, wall_time_s=900.0)
    turns_remembered = 0

    def __init__(self, nodes: SastTriageNodes, policy: SastTriagePolicy) -> None:
        self.graph = make_graph(nodes, policy)

    def initial_state(self, assignment: Assignment) -> dict[str, Any]:
        """Returns the finding and where its code is."""
        asked = runs_pb2.RunInput.FromString(assignment.input).sast_triage
        return {
            "finding": asked.finding.SerializeToString(),
            "source": Source(repository=asked.source.repository, commit=asked.source.commit),
            "code_bank": [],
            "error_attempts": 0,
        }

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the verdict; without a final evaluation it is `NEEDS_REVIEW`."""
        del assigned_input  # the state holds all of it that matters
        evaluated = state.get("evaluation_result")
        final = evaluated if evaluated and evaluated["is_final"] else None
        output = sast_pb2.SastTriageOutput(
            verdict=verdict_name(final["verdict"] if final else NEEDS_REVIEW),
            confidence=final["confidence"] if final else 0.0,
            justification=final["justification"] if final else _unsettled(state),
            evidence=evidence_of(final["evidence"], state["source"]["commit"]) if final else [],
            token_usage=token_usage(state["spend"]),
            iterations=state.get("iteration_count", 0),
        )
        return runs_pb2.RunOutput(sast_triage=output).SerializeToString()


def _unsettled(state: Mapping[str, Any]) -> str:
    evaluated = state.get("evaluation_result")
    said = f" The last evaluation: {evaluated['justification']}" if evaluated else ""
    return f"The run ended ({state.get('stop_reason', 'failed')}) before a verdict was final.{said}"
