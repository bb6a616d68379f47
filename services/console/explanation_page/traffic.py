"""The traffic of an agent's edges: what routers decided, and what went on where none decides."""

from __future__ import annotations

from collections.abc import Mapping

from signalbox.v1 import agent_outline_pb2

from services.console.explanation_page.graph_layout import Link


def with_passages(graph: agent_outline_pb2.AgentOutline, decided: Mapping[Link, int]) -> Mapping[Link, int]:
    """Returns the traffic with that of edges no router decides about: what came to their node went on."""
    traffic = dict(decided)
    then = {node.node: node.then for node in graph.nodes if not node.router and node.then}

    def arrived(name: str, on_the_way: frozenset[str]) -> int:
        """Counts what came to a node, by decisions and through nodes that nobody decides at."""
        came = sum(count for (_, target), count in decided.items() if target == name)
        before = (source for source, target in then.items() if target == name and source not in on_the_way)
        return came + sum(arrived(source, on_the_way | {source}) for source in before)

    for source, target in then.items():
        traffic[source, target] = arrived(source, frozenset((source,)))
    return traffic
