"""What becomes of a graph, as rows of a table: each node and edge with what it was and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import graph_editor_pb2

from services.kit.text.words import fact

_KINDS: Mapping[int, str] = {
    graph_editor_pb2.CHANGE_KIND_CREATED: "create",
    graph_editor_pb2.CHANGE_KIND_UPDATED: "change",
    graph_editor_pb2.CHANGE_KIND_DELETED: "delete",
}


@dataclass(frozen=True)
class Change:
    """What becomes of a node or an edge: its name, and the properties that change, before and after."""

    kind: str
    name: str
    properties: Sequence[tuple[str, str, str]]


def changes_of(changed: graph_editor_pb2.GraphChangeSet) -> Sequence[Change]:
    """Returns the changes of a graph, nodes first."""
    nodes = [
        Change(_KINDS.get(each.kind, "touch"), _node(each.node), _properties(each.before, each.after))
        for each in changed.nodes
    ]
    edges = [
        Change(
            _KINDS.get(each.kind, "touch"),
            f"{_node(each.start)} -{each.type}→ {_node(each.end)}",
            _properties(each.before, each.after),
        )
        for each in changed.edges
    ]
    return (*nodes, *edges)


def _node(node: graph_editor_pb2.NodeReference) -> str:
    return f"{node.label} {node.key}"


def _properties(before: Struct, after: Struct) -> Sequence[tuple[str, str, str]]:
    was: Mapping[str, Any] = MessageToDict(before)
    becomes: Mapping[str, Any] = MessageToDict(after)
    return [
        (name, fact(was[name]) if name in was else "", fact(becomes[name]) if name in becomes else "")
        for name in sorted({*was, *becomes})
        if was.get(name) != becomes.get(name)
    ]
