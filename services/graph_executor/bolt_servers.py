"""What servers that speak Bolt do each in their own way: constraints, plans, and bounds of memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.graph_executor.elements import KEY
from services.kit.tools.executor import ToolRefused


@dataclass(frozen=True)
class BoltServer:
    """A server: `unique` and `index` are templates over label and property.

    `uniquely` reads what `constraints` gives, as the labels whose key is unique. `operations` reads what EXPLAIN gives,
    a plan and rows, as the names of its operators, of which a query may have those in `known`; None: its plans tell too
    little. `bounded` is put after callers' queries, over the bytes of memory that they may take.
    """

    name: str
    unique: str
    index: str
    constraints: str
    uniquely: Callable[[Sequence[Sequence[Any]]], set[str]]
    operations: Callable[[Mapping[str, Any] | None, Sequence[Sequence[Any]]], list[str]] | None = None
    known: frozenset[str] = frozenset()
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


def _neo4j_operations(plan: Mapping[str, Any] | None, _: Sequence[Sequence[Any]]) -> list[str]:
    return list(_walked(plan or {}))


def _walked(plan: Mapping[str, Any]) -> Iterator[str]:
    yield str(plan.get("operatorType", "")).partition("@")[0]
    for child in plan.get("children") or ():
        yield from _walked(child)


_LINE: Final = re.compile(r"[\s|*\\/]*(?P<name>\w*)")


def _memgraph_operations(_: Mapping[str, Any] | None, rows: Sequence[Sequence[Any]]) -> list[str]:
    names = [match["name"] for row in rows if (match := _LINE.match(str(row[0])))]
    # Lines that only draw branches name nothing.
    return [name for name in names if name]


# Operators that begin at a label or a type of edge, or work on rows that are there already. AllNodesScan, NodeById…Seek
# and counts from the store come to whatever there is, the records of calls among it.
_NEO4J_OPERATORS: Final = frozenset(
    {
        "ProduceResults", "Projection", "EagerAggregation", "OrderedAggregation", "Filter", "Sort", "PartialSort",
        "Top", "PartialTop", "Top1WithTies", "Limit", "ExhaustiveLimit", "Skip", "Distinct", "OrderedDistinct",
        "Unwind", "Argument", "Apply", "SemiApply", "AntiSemiApply", "SelectOrSemiApply", "SelectOrAntiSemiApply",
        "LetSemiApply", "LetAntiSemiApply", "LetSelectOrSemiApply", "LetSelectOrAntiSemiApply", "RollUpApply",
        "ConditionalApply", "AntiConditionalApply", "AssertSameNode", "AssertSameRelationship", "CartesianProduct",
        "NodeHashJoin", "ValueHashJoin", "NodeLeftOuterHashJoin", "NodeRightOuterHashJoin", "NodeByLabelScan",
        "UnionNodeByLabelsScan", "IntersectionNodeByLabelsScan", "PartitionedNodeByLabelScan", "NodeIndexSeek",
        "NodeUniqueIndexSeek", "NodeUniqueIndexSeek(Locking)",
        "MultiNodeIndexSeek", "NodeIndexSeekByRange", "NodeUniqueIndexSeekByRange",
        "NodeIndexScan", "NodeIndexContainsScan", "NodeIndexEndsWithScan", "DirectedRelationshipTypeScan",
        "UndirectedRelationshipTypeScan", "DirectedUnionRelationshipTypesScan", "UndirectedUnionRelationshipTypesScan",
        "Expand(All)", "Expand(Into)", "OptionalExpand(All)", "OptionalExpand(Into)", "VarLengthExpand(All)",
        "VarLengthExpand(Into)", "VarLengthExpand(Pruning)", "VarLengthExpand(Pruning,BFS)",
        "VarLengthExpand(Pruning,BFS,All)", "VarLengthExpand(Pruning,BFS,Into)", "ShortestPath", "ProjectEndpoints",
        "Optional", "Union", "OrderedUnion", "Eager", "EmptyResult", "EmptyRow", "CacheProperties", "Create", "Merge",
        "LockingMerge", "Delete", "DetachDelete", "SetLabels", "SetProperty", "SetProperties", "SetPropertiesFromMap",
        "SetNodeProperties", "SetNodePropertiesFromMap", "SetRelationshipProperties",
        "SetRelationshipPropertiesFromMap", "RemoveLabels", "Foreach", "ForeachApply", "ProcedureCall",
    }
)  # fmt: skip
_MEMGRAPH_OPERATORS: Final = frozenset(
    {
        "Accumulate", "Aggregate", "Apply", "BFSExpand", "STShortestPath", "SingleSourceShortestPath", "Cartesian",
        "ConstructNamedPath", "CreateExpand", "CreateNode", "Delete", "Distinct", "EdgeUniquenessFilter", "EmptyResult",
        "EvaluatePatternFilter", "Expand", "ExpandVariable", "Filter", "Foreach", "HashJoin", "IndexedJoin", "Limit",
        "Merge", "Once", "Optional", "OrderBy", "Produce", "RemoveLabels", "RemoveProperty", "RollUpApply",
        "ScanAllByLabel", "ScanAllByLabelProperties", "ScanAllByLabelProperty", "ScanAllByLabelPropertyRange",
        "ScanAllByLabelPropertyValue", "SetLabels", "SetProperties", "SetProperty", "Skip", "Union", "Unwind",
        "CallProcedure",
    }
)  # fmt: skip
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
        _memgraph_operations,
        _MEMGRAPH_OPERATORS,
        " QUERY MEMORY LIMIT {kilobytes} KB",
    ),
    "ArcadeDB": BoltServer("ArcadeDB", _UNIQUE, _INDEX, _SHOW, _of_neo4j),
    "Neo4j/": BoltServer("Neo4j", _UNIQUE, _INDEX, _SHOW, _of_neo4j, _neo4j_operations, _NEO4J_OPERATORS),
}
