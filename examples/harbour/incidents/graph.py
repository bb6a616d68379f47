"""The graph of who depends on whom: `python -m examples.harbour.incidents.graph GRAPH...` makes it in each graph.

The server's URL is in SIGNALBOX_GRAPH_URL. What is there already stays.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from falkordb.asyncio.graph import AsyncGraph
from redis.asyncio import Redis

from examples.harbour.incidents.world import DEPENDS_ON, OWNERS, ServiceWorld

_NODES = "UNWIND $nodes AS n MERGE (s:Service {key: n.key}) SET s.name = n.name, s.owner = n.owner"
_EDGES = "UNWIND $edges AS e MATCH (a:Service {key: e.start}), (b:Service {key: e.end}) MERGE (a)-[:DEPENDS_ON]->(b)"


async def make_graph(url: str, graphs: Sequence[str], world: ServiceWorld | None = None) -> None:
    """Makes the services and what they depend on in each of these graphs of a server."""
    world = world or ServiceWorld()
    nodes = [
        {"key": world.names[service], "name": world.names[service].replace("-", " "), "owner": OWNERS[number % 3]}
        for number, service in enumerate(DEPENDS_ON)
    ]
    edges = [{"start": start, "end": end} for start, end in world.edges]
    async with Redis.from_url(url, decode_responses=True) as redis:
        for name in graphs:
            graph = AsyncGraph(redis, name)
            await _keep_keys_unique(redis, graph, name)
            await graph.query(_NODES, {"nodes": nodes})
            await graph.query(_EDGES, {"edges": edges})


async def _keep_keys_unique(redis: Redis, graph: AsyncGraph, name: str) -> None:
    """Makes the constraints that the graph executor wants to be there before any node; it may have made them."""
    found = await graph.query("CALL db.constraints() YIELD label RETURN label") if await redis.exists(name) else None
    if found is not None and ["Service"] in found.result_set:
        return
    await graph.query("CREATE INDEX FOR (s:Service) ON (s.key)")
    for kind in ("MANDATORY", "UNIQUE"):
        await redis.execute_command("GRAPH.CONSTRAINT", "CREATE", name, kind, "NODE", "Service", "PROPERTIES", 1, "key")


def main(graphs: Sequence[str]) -> int:
    """Make the graphs that are named."""
    url = os.environ.get("SIGNALBOX_GRAPH_URL", "")
    if not url or not graphs:
        sys.stderr.write("usage: SIGNALBOX_GRAPH_URL=… python -m examples.harbour.incidents.graph GRAPH...\n")
        return 2
    asyncio.run(make_graph(url, graphs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
