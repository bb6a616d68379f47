"""An agent's graph as it is drawn: where everything stands, the way that a run took, and the traffic of every edge."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from signalbox.v1 import agent_outline_pb2, runs_pb2

from services.console.explanation_page.graph_layout import NODE_HEIGHT, NODE_WIDTH, Link, Point, draw
from services.kit.wire.event_kinds import ENDED_RUN_STATES

END = "__end__"
THINNEST, WIDEST = 1.4, 5.0
LONGEST_NAME = 21


@dataclass(frozen=True)
class DrawnNode:
    """A node: its corner, its name in full and as short as it is wide, and how often the run came to it."""

    name: str
    title: str
    x: float
    y: float
    visits: int
    first_visit: int
    is_entry: bool
    is_end: bool


@dataclass(frozen=True)
class DrawnEdge:
    """An edge: its path, what leads along it, the decisions of the run that did, and how many of all runs'."""

    source: str
    target: str
    path: str
    label: Point
    rules: Sequence[str]
    passages: int
    sequences: Sequence[int]
    traffic: int
    width: float

    @property
    def badge(self) -> str:
        """The decisions that led along it; how often it was passed, where none did or many."""
        told = " · ".join(map(str, self.sequences))
        return told if told and len(told) <= 9 else f"{self.passages} times"

    @property
    def badge_width(self) -> float:
        """Room for these, in pixels."""
        return 14 + 6.6 * len(self.badge)


@dataclass(frozen=True)
class RouteDrawing:
    """The graph, drawn."""

    width: float
    height: float
    node_width: float
    node_height: float
    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]
    is_of_another_release: bool
    has_traffic: bool
    has_route: bool
    label: str


def route_drawing(
    run: runs_pb2.Run,
    story: runs_pb2.RunExplanation,
    traffic: Mapping[Link, int],
    label: str = "Graph of the agent with the route of the run",
) -> RouteDrawing:
    """Draws the graph of a run's agent, with what another release's graph had besides, as far as the run came there."""
    outline = story.agent
    rules = edges_of(outline)
    passages = _passages(run, story)
    visits: dict[str, list[int]] = defaultdict(list)
    for step in story.route:
        visits[step.node].append(step.led_by)
    if any(END in link for link in passages):
        visits[END].append(story.route[-1].sequence)
    for link in (*passages, *traffic):
        rules.setdefault(link, [])
    names = list(dict.fromkeys([*(node.node for node in outline.nodes), *(step.node for step in story.route)]))
    names += [name for link in rules for name in link if name not in names]
    names = [*dict.fromkeys(name for name in names if name != END), END]
    entry = outline.entry or names[0]
    drawing = draw(names, list(rules))
    most = max([*traffic.values(), *map(len, passages.values()), 1])
    nodes = [
        DrawnNode(
            name=name,
            title="end" if name == END else name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…",
            x=drawing.nodes[name][0] - NODE_WIDTH / 2,
            y=drawing.nodes[name][1] - NODE_HEIGHT / 2,
            visits=len(visits[name]),
            first_visit=min(visits[name], default=0),
            is_entry=name == entry,
            is_end=name == END,
        )
        for name in names
    ]
    edges = []
    for link, named in rules.items():
        placed, passed = drawing.edges[link], passages.get(link, [])
        weight = math.log1p(traffic.get(link, len(passed))) / math.log1p(most)
        edges.append(
            DrawnEdge(
                *link,
                placed.path,
                placed.label,
                named,
                len(passed),
                [sequence for sequence in passed if sequence],
                traffic.get(link, 0),
                THINNEST + (WIDEST - THINNEST) * weight,
            )
        )
    is_other = bool(outline.graph_version and run.graph_version and outline.graph_version != run.graph_version)
    # What was passed is drawn over what was not.
    edges.sort(key=lambda edge: (edge.passages, edge.traffic))
    return RouteDrawing(
        drawing.width,
        drawing.height,
        NODE_WIDTH,
        NODE_HEIGHT,
        nodes,
        edges,
        is_other,
        has_traffic=bool(traffic),
        has_route=bool(run.run_id),
        label=label,
    )


def edges_of(outline: agent_outline_pb2.AgentOutline) -> dict[Link, list[str]]:
    """Returns the edges of a graph with the rules that lead along each; of a node that no router follows, none."""
    edges: dict[Link, list[str]] = {}
    for node in outline.nodes:
        for destination in node.destinations:
            edges.setdefault((node.node, destination), [])
        if not node.router and not node.destinations:
            edges.setdefault((node.node, node.then), [])
        for rule in node.rules:
            for way in rule.ways:
                edges.setdefault((node.node, way.destination), []).append(rule.rule)
    return edges


def _passages_of_graph(story: runs_pb2.RunExplanation) -> dict[Link, list[int]]:
    """Returns the edges that a run of a hosted graph took: its nodes may run side by side."""
    known, passages = edges_of(story.agent), defaultdict[Link, list[int]](list)
    for number, step in enumerate(story.route):
        before = (each for each in reversed(story.route[:number]) if (each.node, step.node) in known)
        if led := next(before, None):
            passages[led.node, step.node].append(led.sequence)
    return passages


def _passages(run: runs_pb2.Run, story: runs_pb2.RunExplanation) -> dict[Link, list[int]]:
    """Returns the edges that a run took, with the decision that led along each; 0 where no router stands."""
    passages: dict[Link, list[int]] = defaultdict(list)
    if any(node.destinations for node in story.agent.nodes):
        return _passages_of_graph(story)
    for step, following in pairwise(story.route):
        passages[step.node, following.node].append(step.sequence)
    # A run that somebody cancelled ended without a step to the end.
    if story.route and run.state in ENDED_RUN_STATES and run.state != runs_pb2.RUN_STATE_CANCELLED:
        last = story.route[-1]
        passages[last.node, END].append(last.sequence)
    return passages
