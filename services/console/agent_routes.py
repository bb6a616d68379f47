"""The graph of an agent with the traffic of all runs that the caller may see, on each of its edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from signalbox.v1 import agent_outline_pb2, runs_pb2

from services.console.errors import NotFound
from services.console.explanation_page.route_drawing import END, RouteDrawing, route_drawing
from services.console.explanation_page.traffic import with_passages
from services.console.gateway import Gateway
from services.console.reading import traffic_of

Link = tuple[str, str]


@dataclass(frozen=True)
class Route:
    """An edge: the rules that lead along it, how often each did, and what part of those that leave its node go by it.

    One that no router decides about has no rules, and carries what came to its node.
    """

    source: str
    target: str
    router: str
    rules: Sequence[tuple[str, int]]
    traffic: int
    share: float


@dataclass(frozen=True)
class AgentRoutes:
    """An agent's graph, drawn, and its edges in the order of its nodes; `is_whole` where all of its nodes are known."""

    drawing: RouteDrawing
    routes: Sequence[Route]
    is_whole: bool


async def outline_of(gateway: Gateway, agent: str) -> agent_outline_pb2.AgentOutline | None:
    """Returns an agent's graph as its newest run's explanation tells it; None without a run. Raises ConsoleError."""
    newest = await gateway.call(gateway.runs.ListRuns, runs_pb2.ListRunsRequest(agent=agent, page_size=1))
    for run in newest.runs:
        request = runs_pb2.ExplainRunRequest(run_id=run.run_id, page_size=1)
        try:
            told = await gateway.call(gateway.runs.ExplainRun, request)
        except NotFound:
            return None  # removed in between
        return told.run.agent if told.run.agent.nodes else None
    return None


def agent_routes(
    outline: agent_outline_pb2.AgentOutline | None, counted: runs_pb2.CountDecisionsResponse
) -> AgentRoutes:
    """Draws an agent's graph; without its outline, what of it the counts tell: nodes that routers follow."""
    graph = outline or _counted_outline(counted)
    traffic = with_passages(graph, traffic_of(counted))
    story = runs_pb2.RunExplanation(agent=graph)
    drawing = route_drawing(runs_pb2.Run(), story, traffic, "Graph of the agent with the traffic of each edge")
    return AgentRoutes(drawing, _routes(graph, counted, traffic), outline is not None)


def _counted_outline(counted: runs_pb2.CountDecisionsResponse) -> agent_outline_pb2.AgentOutline:
    nodes: dict[str, agent_outline_pb2.NodeOutline] = {}
    ways: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in counted.counts:
        nodes.setdefault(each.node, agent_outline_pb2.NodeOutline(node=each.node, router=each.router))
        if each.destination not in ways[each.node, each.rule]:
            ways[each.node, each.rule].append(each.destination)
    for (node, rule), destinations in ways.items():
        led = [agent_outline_pb2.WayOutline(destination=destination) for destination in destinations]
        nodes[node].rules.append(agent_outline_pb2.RuleOutline(rule=rule, ways=led))
    outline = agent_outline_pb2.AgentOutline(nodes=nodes.values())
    for name in dict.fromkeys(each.destination for each in counted.counts):
        if name not in nodes and name != END:
            outline.nodes.add(node=name, then=END)
    return outline


def _routes(
    graph: agent_outline_pb2.AgentOutline,
    counted: runs_pb2.CountDecisionsResponse,
    traffic: Mapping[Link, int],
) -> Sequence[Route]:
    rules: dict[Link, dict[str, int]] = defaultdict(dict)
    routers = {node.node: node.router for node in graph.nodes}
    for node in graph.nodes:
        for rule in node.rules:
            for way in rule.ways:
                rules[node.node, way.destination].setdefault(rule.rule, 0)
    for each in counted.counts:
        fired = rules[each.node, each.destination]
        fired[each.rule] = fired.get(each.rule, 0) + each.count
        routers.setdefault(each.node, each.router)
    leaving: dict[str, int] = defaultdict(int)
    for (source, _), count in traffic.items():
        leaving[source] += count
    order = {name: number for number, name in enumerate(routers)}
    return [
        Route(
            source,
            target,
            routers.get(source, ""),
            sorted(rules.get((source, target), {}).items(), key=lambda rule: (-rule[1], rule[0])),
            traffic.get((source, target), 0),
            traffic.get((source, target), 0) / leaving[source] if leaving[source] else 0.0,
        )
        for source, target in sorted(
            {*rules, *traffic}, key=lambda link: (order.get(link[0], len(order)), -traffic.get(link, 0), link[1])
        )
    ]
