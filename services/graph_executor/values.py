"""Values as graph databases give them, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from falkordb.asyncio.query_result import QueryResult
from falkordb.edge import Edge
from falkordb.node import Node
from falkordb.path import Path
from neo4j.graph import Node as BoltNode
from neo4j.graph import Path as BoltPath
from neo4j.graph import Relationship as BoltEdge

from services.graph_executor.store import Rows
from services.kit.tools.effects import LARGEST_EXACT_INTEGER

_COUNTS: Final = (
    "nodes_created", "nodes_deleted", "relationships_created", "relationships_deleted", "properties_set",
    "properties_removed", "labels_added", "labels_removed",
)  # fmt: skip


def json_rows(result: QueryResult) -> Rows:
    """Returns a result with its values as JSON has them, and the labels of all nodes in it."""
    labels: set[str] = set()
    rows = [json_cells(row, labels) for row in result.result_set]
    counts = {name.replace("relationships", "edges"): int(getattr(result, name)) for name in _COUNTS}
    columns = tuple(column[1] for column in result.header)
    return Rows(columns, rows, counts, frozenset(labels))


def json_cells(row: Sequence[Any], labels: set[str]) -> list[Any]:
    """Returns the values of a row as JSON has them, and adds the labels of all nodes in it."""
    return [_value(cell, labels) for cell in row]


def _value(value: Any, labels: set[str]) -> Any:
    if isinstance(value, BoltNode | BoltEdge | BoltPath):
        return _element(value, labels)
    if isinstance(value, Node):
        labels.update(value.labels or ())
        return {"labels": sorted(value.labels or ()), "properties": _map(value.properties, labels)}
    if isinstance(value, Edge):
        return {"type": value.relation, "properties": _map(value.properties, labels)}
    if isinstance(value, Path):
        return {"nodes": _value(value.nodes(), labels), "edges": _value(value.edges(), labels)}
    if isinstance(value, Mapping):
        return _map(value, labels)
    if isinstance(value, list | tuple):
        return [_value(item, labels) for item in value]
    return _scalar(value)


def _element(value: BoltNode | BoltEdge | BoltPath, labels: set[str]) -> dict[str, Any]:
    if isinstance(value, BoltPath):
        return {"nodes": json_cells(value.nodes, labels), "edges": json_cells(value.relationships, labels)}
    held = _map(dict(value.items()), labels)
    if isinstance(value, BoltEdge):
        return {"type": value.type, "properties": held}
    labels.update(value.labels)
    return {"labels": sorted(value.labels), "properties": held}


def _map(value: Mapping[str, Any] | None, labels: set[str]) -> dict[str, Any]:
    return {name: _value(item, labels) for name, item in (value or {}).items()}


def _scalar(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_EXACT_INTEGER else str(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    return str(value)
