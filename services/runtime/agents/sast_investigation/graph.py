"""The graph of `sast_investigation`."""

from __future__ import annotations

from services.runtime.agents.sast_investigation import outcomes
from services.runtime.agents.sast_investigation.nodes import SastInvestigationNodes
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import RESEARCH
from services.runtime.agents.sast_investigation.routing import make_routers
from services.runtime.agents.sast_investigation.state import SastInvestigationState
from services.runtime.agents.sast_investigation.task import TOOLS
from services.runtime.calls.evaluator_client import MOST_MODEL_CALLS
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode


def make_graph(
    nodes: SastInvestigationNodes | type[SastInvestigationNodes], policy: SastInvestigationPolicy
) -> AgentGraph:
    """Returns the graph: research → analysis → evaluation → (end | increment → … | circuit_breaker → end)."""
    after_evaluation, after_increment = make_routers(policy)
    return AgentGraph(
        name="sast_investigation",
        state=SastInvestigationState,
        entry="research",
        nodes=(
            # Before anything else it holds the snippet of the finding against the commit.
            RoutedNode(
                "research",
                nodes.research,
                then="analysis",
                inner=RESEARCH,
                outcomes=outcomes.NOTHING,
                cost=Cost(
                    # Of each, one more within a tighter budget.
                    model_calls=2 * policy.research_model_calls,
                    tool_calls=policy.research_model_calls * policy.research_calls_per_turn,
                    first_tool_calls=1,
                ),
            ),
            RoutedNode(
                "analysis",
                nodes.analysis,
                then="evaluation",
                outcomes=outcomes.NOTHING,
                cost=Cost(model_calls=2 * policy.draft_attempts),
            ),
            RoutedNode(
                "evaluation",
                nodes.evaluation,
                after_evaluation,
                concludes=True,
                outcomes=outcomes.EVALUATION,
                cost=Cost(model_calls=MOST_MODEL_CALLS),
            ),
            RoutedNode("increment", nodes.increment, after_increment, outcomes=outcomes.INCREMENT),
            RoutedNode("circuit_breaker", nodes.circuit_breaker, concludes=True, outcomes=outcomes.NOTHING),
        ),
        tools=frozenset(TOOLS),
        max_steps=policy.subgraph_steps,
        node_timeout_s=policy.node_timeout_s,
    )
