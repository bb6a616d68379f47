"""The graph of `sast_triage`."""

from __future__ import annotations

from services.kit.tools.names import FETCH_CODE
from services.runtime.agents.sast_triage import outcomes
from services.runtime.agents.sast_triage.nodes import SastTriageNodes
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.routing import COMPREHENSIVE_EVALUATION, make_routers
from services.runtime.agents.sast_triage.state import SastTriageState
from services.runtime.calls.evaluator_client import MOST_MODEL_CALLS
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode


def make_graph(nodes: SastTriageNodes | type[SastTriageNodes], policy: SastTriagePolicy) -> AgentGraph:
    """Returns the graph: agent ⇄ fetch_code, agent → analyze_issue → comprehensive_evaluation → (agent | end)."""
    route_agent_decision, route_after_evaluation = make_routers(policy)
    return AgentGraph(
        name="sast_triage",
        state=SastTriageState,
        entry="agent",
        nodes=(
            # Before anything else it holds the snippet of the finding against the commit.
            RoutedNode(
                "agent",
                nodes.agent,
                route_agent_decision,
                outcomes=outcomes.AGENT,
                # One more within a tighter budget; so of each draft.
                cost=Cost(model_calls=2, first_tool_calls=1),
            ),
            RoutedNode(
                FETCH_CODE,
                nodes.fetch_code,
                then="agent",
                outcomes=outcomes.FETCH_CODE,
                cost=Cost(tool_calls=1),
            ),
            RoutedNode(
                "analyze_issue",
                nodes.analyze_issue,
                then=COMPREHENSIVE_EVALUATION,
                outcomes=outcomes.ANALYZE_ISSUE,
                cost=Cost(model_calls=2 * policy.draft_attempts),
            ),
            RoutedNode(
                COMPREHENSIVE_EVALUATION,
                nodes.comprehensive_evaluation,
                route_after_evaluation,
                concludes=True,
                outcomes=outcomes.COMPREHENSIVE_EVALUATION,
                cost=Cost(model_calls=MOST_MODEL_CALLS),
            ),
        ),
        tools=frozenset({FETCH_CODE}),
        node_timeout_s=policy.node_timeout_s,
    )
