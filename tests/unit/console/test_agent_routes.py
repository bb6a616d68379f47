"""The graph of an agent with its traffic: what routers decided, and what went on where none decides."""

from __future__ import annotations

from signalbox.v1 import agent_outline_pb2, runs_pb2

from services.console.agent_routes import agent_routes
from services.console.explanation_page.route_drawing import END
from services.runtime.agents.registry import definitions
from services.runtime.api.outline_wire import outline_proto

ROUTER = "data_chat.route_after_{}"


def counted(*counts: tuple[str, str, str, int]) -> runs_pb2.CountDecisionsResponse:
    """Counts by node, rule and destination."""
    return runs_pb2.CountDecisionsResponse(
        counts=[
            runs_pb2.DecisionCount(
                router=ROUTER.format(node), node=node, rule=rule, destination=destination, count=count
            )
            for node, rule, destination, count in counts
        ]
    )


COUNTED = counted(
    ("screen_question", "allowed", "agent", 8),
    ("screen_question", "blocked", END, 2),
    ("agent", "tool_calls", "tools", 6),
    ("agent", "plain_text", "format_answer", 2),
    ("agent", "iteration_limit", "format_answer", 1),
    ("tools", "query_executed", "format_answer", 4),
    ("tools", "query_failed", "agent", 0),
)


def test_what_came_to_a_node_without_a_router_went_on() -> None:
    definition = definitions()["data_chat"]
    shown = agent_routes(outline_proto(definition.outline, definition.policy()), COUNTED)
    routes = {(each.source, each.target): each for each in shown.routes}
    assert shown.is_whole
    assert routes["format_answer", END].traffic == 7
    assert routes["format_answer", END].rules == []
    assert routes["agent", "format_answer"].rules[:2] == [("plain_text", 2), ("iteration_limit", 1)]
    assert routes["agent", "format_answer"].traffic == 3
    assert routes["agent", "tools"].share == 6 / 9
    assert routes["tools", "agent"].traffic == 0
    # What the tables have and was never counted is there, too.
    assert routes["agent", "agent"].rules == [("no_action", 0)]
    drawn = {(edge.source, edge.target): edge for edge in shown.drawing.edges}
    assert set(drawn) == set(routes)
    assert drawn["screen_question", "agent"].width > drawn["agent", "format_answer"].width
    assert not any(node.visits for node in shown.drawing.nodes)


def test_without_a_run_the_counts_tell_the_graph() -> None:
    shown = agent_routes(None, COUNTED)
    routes = {(each.source, each.target): each.traffic for each in shown.routes}
    assert not shown.is_whole
    assert routes["screen_question", "agent"] == 8
    assert routes["format_answer", END] == 7
    assert {node.name for node in shown.drawing.nodes} == {"screen_question", "agent", "tools", "format_answer", END}


def test_nodes_without_routers_may_stand_in_a_circle() -> None:
    outline = agent_outline_pb2.AgentOutline(
        entry="begin",
        nodes=[
            agent_outline_pb2.NodeOutline(node="begin", router=ROUTER.format("begin")),
            agent_outline_pb2.NodeOutline(node="one", then="other"),
            agent_outline_pb2.NodeOutline(node="other", then="one"),
        ],
    )
    shown = agent_routes(outline, counted(("begin", "go", "one", 3)))
    routes = {(each.source, each.target): each.traffic for each in shown.routes}
    assert routes == {("begin", "one"): 3, ("one", "other"): 3, ("other", "one"): 3}
