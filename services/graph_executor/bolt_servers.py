"""What servers that speak Bolt do each in their own way: constraints, and bounds of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.graph_executor.elements import KEY
from services.kit.tools.executor import ToolRefused


@dataclass(frozen=True)
class BoltServer:
    """A server: `unique` and `index` are templates over label and property.

    `uniquely` reads what `constraints` gives, as the labels whose key is unique. `bounded` is put after callers'
    queries, over the bytes of memory that they may take.
    """

    name: str
    unique: str
    index: str
    constraints: str
    uniquely: Callable[[Sequence[Sequence[Any]]], set[str]]
    bounded: str = ""


def server_of(agent: str) -> BoltServer:
    """Returns the server that calls itself so. Raises ToolRefused for one that is not known."""
    for name, server in _SERVERS.items():
        if name in agent:
            return server
    known = ", ".join(server.name for server in _SERVERS.values())
    raise ToolRefused("unknown_server", f"The server calls itself {agent[:80]!r}; what is known is: {known}.")


def _of_neo4j(rows: Sequence[Sequence[Any]]) -> set[str]:
    return {labels[0] for kind, labels, properties in rows if "UNIQUENESS" in kind and properties == [KEY]}


def _of_memgraph(rows: Sequence[Sequence[Any]]) -> set[str]:
    return {row[1] for row in rows if row[0] == "unique" and row[2] in (KEY, [KEY])}


_UNIQUE: Final = "CREATE CONSTRAINT IF NOT EXISTS FOR (n:{label}) REQUIRE n.{property} IS UNIQUE"
_INDEX: Final = "CREATE INDEX IF NOT EXISTS FOR (n:{label}) ON (n.{property})"
_SHOW: Final = "SHOW CONSTRAINTS YIELD type, labelsOrTypes, properties"
# By what a server's name for itself holds; all of them say that they are like Neo4j.
_SERVERS: Final[Mapping[str, BoltServer]] = {
    "Memgraph": BoltServer(
        "Memgraph",
        "CREATE CONSTRAINT ON (n:{label}) ASSERT n.{property} IS UNIQUE",
        "CREATE INDEX ON :{label}({property})",
        "SHOW CONSTRAINT INFO",
        _of_memgraph,
        " QUERY MEMORY LIMIT {kilobytes} KB",
    ),
    "ArcadeDB": BoltServer("ArcadeDB", _UNIQUE, _INDEX, _SHOW, _of_neo4j),
    "Neo4j/": BoltServer("Neo4j", _UNIQUE, _INDEX, _SHOW, _of_neo4j),
}
