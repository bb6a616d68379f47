"""The graph of `incident_investigation`."""

from __future__ import annotations

from services.runtime.agents.incident_investigation import outcomes
from services.runtime.agents.incident_investigation.conclusion import MOST_EVIDENCE
from services.runtime.agents.incident_investigation.investigation_tools import ALL_TOOLS
from services.runtime.agents.incident_investigation.nodes import (
    IncidentNodes,
    failed_investigation,
    without_evaluator,
    without_guard,
    without_model,
)
from services.runtime.agents.incident_investigation.policy import IncidentPolicy
from services.runtime.agents.incident_investigation.routing import AGENT, TOOLS, VALIDATION, make_routers
from services.runtime.agents.incident_investigation.state import IncidentState
from services.runtime.calls.evaluator_client import MOST_MODEL_CALLS
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode


def make_graph(nodes: IncidentNodes | type[IncidentNodes], policy: IncidentPolicy) -> AgentGraph:
    """Returns the graph: screen_incident → agent ⇄ tools, agent → validation → (agent | end)."""
    after_screen, after_agent, after_validation = make_routers(policy)
    return AgentGraph(
        name="incident_investigation",
        state=IncidentState,
        entry="screen_incident",
        nodes=(
            RoutedNode(
                "screen_incident",
                nodes.screen_incident,
                after_screen,
                failed=without_guard,
                outcomes=outcomes.SCREEN_INCIDENT,
                cost=Cost(model_calls=1),
            ),
            # It looks up what the evidence of an answer points at.
            RoutedNode(
                AGENT,
                nodes.agent,
                after_agent,
                failed=without_model,
                outcomes=outcomes.AGENT,
                # Of each attempt, one more within a tighter budget.
                cost=Cost(model_calls=2 * policy.answer_attempts, tool_calls=MOST_EVIDENCE),
            ),
            RoutedNode(
                TOOLS, nodes.tools, then=AGENT, outcomes=outcomes.TOOLS, cost=Cost(tool_calls=policy.calls_at_once)
            ),
            RoutedNode(
                VALIDATION,
                nodes.validation,
                after_validation,
                failed=without_evaluator,
                outcomes=outcomes.VALIDATION,
                cost=Cost(model_calls=MOST_MODEL_CALLS),
            ),
        ),
        tools=frozenset(ALL_TOOLS),
        node_timeout_s=policy.node_timeout_s,
        when_failed=failed_investigation,
    )
