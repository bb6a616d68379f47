"""The graph of `data_chat`."""

from __future__ import annotations

from services.runtime.agents.data_chat import outcomes
from services.runtime.agents.data_chat.nodes import TOOLS, DataChatNodes
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.routing import make_routers
from services.runtime.agents.data_chat.state import DataChatState
from services.runtime.agents.screening import unscreened
from services.runtime.routing.effects import Cost
from services.runtime.routing.graph import AgentGraph, RoutedNode


def make_graph(nodes: DataChatNodes | type[DataChatNodes], policy: DataChatPolicy) -> AgentGraph:
    """Returns the graph: screen_question → agent ⇄ tools → format_answer → end."""
    after_screen, after_agent, after_tools = make_routers(policy)
    return AgentGraph(
        name="data_chat",
        state=DataChatState,
        entry="screen_question",
        nodes=(
            RoutedNode(
                "screen_question",
                nodes.screen_question,
                after_screen,
                failed=unscreened,
                concludes=True,
                outcomes=outcomes.SCREEN_QUESTION,
                cost=Cost(model_calls=1),
            ),
            # On its first visit it looks for examples.
            RoutedNode(
                "agent",
                nodes.agent,
                after_agent,
                outcomes=outcomes.AGENT,
                # One more within a tighter budget.
                cost=Cost(model_calls=2, first_tool_calls=1),
            ),
            RoutedNode("tools", nodes.tools, after_tools, outcomes=outcomes.TOOLS, cost=Cost(tool_calls=None)),
            RoutedNode(
                "format_answer",
                nodes.format_answer,
                concludes=True,
                outcomes=outcomes.FORMAT_ANSWER,
                cost=Cost(model_calls=2),
            ),
        ),
        tools=frozenset(TOOLS),
        node_timeout_s=policy.node_timeout_s,
    )
