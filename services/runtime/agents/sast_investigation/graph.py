"""The graph of `sast_investigation`, and its way in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import runs_pb2, sast_pb2

from services.runtime.agents.agent import Assignment, token_usage
from services.runtime.agents.code_review.code_tools import Source
from services.runtime.agents.code_review.draft import NEEDS_REVIEW, evidence_of, verdict_name
from services.runtime.agents.sast_investigation.nodes import SastInvestigationNodes
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.routing import APPROVED, make_routers
from services.runtime.agents.sast_investigation.state import SastInvestigationState
from services.runtime.agents.sast_investigation.task import TOOLS
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.state import Budget

NAME = "sast_investigation"
VERSION = "1"


def make_graph(nodes: SastInvestigationNodes, policy: SastInvestigationPolicy) -> AgentGraph:
    """Returns the graph: research → analysis → evaluation → (end | increment → … | circuit_breaker → end)."""
    after_evaluation, after_increment = make_routers(policy)
    return AgentGraph(
        name=NAME,
        version=VERSION,
        state=SastInvestigationState,
        entry="research",
        nodes=(
            RoutedNode("research", nodes.research, then="analysis", inner=nodes.research_graph),
            RoutedNode("analysis", nodes.analysis, then="evaluation"),
            RoutedNode("evaluation", nodes.evaluation, after_evaluation),
            RoutedNode("increment", nodes.increment, after_increment),
            RoutedNode("circuit_breaker", nodes.circuit_breaker),
        ),
        tools=frozenset(TOOLS),
        max_steps=policy.subgraph_steps,
    )


class SastInvestigation:
    """The agent `sast_investigation`: one finding of a batch."""

    budget = Budget(model_calls=150, tool_calls=600, tokens=4_000_000, wall_time_s=3600.0)
    turns_remembered = 0

    def __init__(self, nodes: SastInvestigationNodes, policy: SastInvestigationPolicy) -> None:
        self.graph = make_graph(nodes, policy)

    def initial_state(self, assignment: Assignment) -> dict[str, Any]:
        """Returns the finding and where its code is."""
        asked = runs_pb2.RunInput.FromString(assignment.input).sast_investigation
        return {
            "finding": asked.finding.SerializeToString(),
            "source": Source(repository=asked.source.repository, commit=asked.source.commit),
            "code_bank": [],
            "fetched_files": [],
            "tool_call_history": [],
        }

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the verdict; unless it was approved it is `NEEDS_REVIEW`."""
        del assigned_input  # the state holds all of it that matters
        critique, draft = state.get("critique"), state.get("draft")
        approved = draft if draft and critique and critique["outcome"] == APPROVED else None
        output = sast_pb2.SastInvestigationOutput(
            verdict=verdict_name(approved["verdict"] if approved else NEEDS_REVIEW),
            confidence=approved["confidence"] if approved else 0.0,
            justification=approved["justification"] if approved else _unsettled(state),
            evidence=evidence_of(approved["claims"], state["source"]["commit"]) if approved else [],
            token_usage=token_usage(state["spend"]),
            iterations=state.get("iteration_count", 0) + 1,
            fetched_files=state.get("fetched_files") or [],
        )
        return runs_pb2.RunOutput(sast_investigation=output).SerializeToString()


def _unsettled(state: Mapping[str, Any]) -> str:
    critique = state.get("critique")
    said = f" The last evaluation: {' '.join([critique['reason'], *critique['missing']])}" if critique else ""
    return f"The run ended ({state.get('stop_reason', 'failed')}) before a verdict was approved.{said}"
