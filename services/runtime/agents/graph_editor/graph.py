"""The graph of `graph_editor`."""

from __future__ import annotations

from services.runtime.agents.graph_editor import outcomes
from services.runtime.agents.graph_editor.nodes import TOOLS, GraphEditorNodes, outcome_unknown
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.routing import make_routers
from services.runtime.agents.graph_editor.state import GraphEditorState
from services.runtime.agents.screening import unscreened
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode


def make_graph(nodes: GraphEditorNodes | type[GraphEditorNodes], policy: GraphEditorPolicy) -> AgentGraph:
    """Returns the graph: nodes that plan ask models, `ask_person` pauses, and only `call_tool` acts."""
    after = make_routers(policy)
    return AgentGraph(
        name="graph_editor",
        state=GraphEditorState,
        entry="parse_goal",
        nodes=(
            RoutedNode(
                "parse_goal",
                nodes.parse_goal,
                after["parse_goal"],
                failed=unscreened,
                outcomes=outcomes.PARSE_GOAL,
                # One call is the guard's.
                # The guard's, and one more within a tighter budget.
                cost=Cost(model_calls=3, tool_calls=2),
            ),
            RoutedNode(
                "plan_step",
                nodes.plan_step,
                after["plan_step"],
                outcomes=outcomes.PLAN_STEP,
                cost=Cost(model_calls=2, tool_calls=1),
            ),
            RoutedNode(
                "route_tool",
                nodes.route_tool,
                after["route_tool"],
                outcomes=outcomes.ROUTE_TOOL,
                cost=Cost(tool_calls=1),
            ),
            RoutedNode(
                "call_tool",
                nodes.call_tool,
                after["call_tool"],
                failed=outcome_unknown,
                acts=True,
                outcomes=outcomes.CALL_TOOL,
                cost=Cost(tool_calls=2),
            ),
            RoutedNode("evaluate", nodes.evaluate, after["evaluate"], outcomes=outcomes.EVALUATE),
            RoutedNode("diagnose", nodes.diagnose, after["diagnose"], outcomes=outcomes.DIAGNOSE),
            RoutedNode("escalate", nodes.escalate, after["escalate"], outcomes=outcomes.ESCALATE),
            RoutedNode("ask_person", nodes.ask_person, after["ask_person"], asks=True, outcomes=outcomes.ASK_PERSON),
            RoutedNode("answer", nodes.answer, concludes=True, outcomes=outcomes.ANSWER, cost=Cost(model_calls=2)),
        ),
        tools=frozenset(TOOLS),
        given=outcomes.GIVEN,
        node_timeout_s=policy.node_timeout_s,
    )
