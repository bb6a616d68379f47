"""A run's steps and changes as its output has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import graph_editor_pb2

from services.runtime.agents.graph_editor.state import PerformedOperation
from services.runtime.agents.graph_editor.wording import told_step

CREATED = graph_editor_pb2.CHANGE_KIND_CREATED
UPDATED = graph_editor_pb2.CHANGE_KIND_UPDATED
DELETED = graph_editor_pb2.CHANGE_KIND_DELETED


def steps_of(steps: Iterable[PerformedOperation]) -> list[graph_editor_pb2.GraphEditStep]:
    """Returns steps as the output has them."""
    return [
        graph_editor_pb2.GraphEditStep(
            operation_id=step["operation_id"],
            tool=step["tool"],
            arguments=_struct(step["arguments"]),
            result=step["result"],
            text=step["text"],
        )
        for step in steps
    ]


def checked(step: PerformedOperation) -> PerformedOperation:
    """Returns a step as it was told, once it can be told on. Raises TypeError and the like for one that can't."""
    change_set([step])
    told_step(step)
    "".join([step["result"], step["text"], *step["differs"]])
    return step


def change_set(steps: Sequence[PerformedOperation]) -> graph_editor_pb2.GraphChangeSet:
    """Returns what steps changed altogether: each node and edge once, as it was before the first and after the last."""
    nodes = _altogether(node for step in steps for node in step["change"].get("nodes", ()))
    edges = _altogether(edge for step in steps for edge in step["change"].get("edges", ()))
    return graph_editor_pb2.GraphChangeSet(
        nodes=[graph_editor_pb2.NodeChange(node=_node(node), **_change(node)) for node in nodes],
        edges=[
            graph_editor_pb2.EdgeChange(
                type=edge["type"], start=_node(edge["from"]), end=_node(edge["to"]), **_change(edge)
            )
            for edge in edges
        ],
    )


def count_changed(steps: Sequence[PerformedOperation]) -> int:
    """Returns how many nodes and edges steps changed altogether."""
    changed = change_set(steps)
    return len(changed.nodes) + len(changed.edges)


def _altogether(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for change in changes:
        name = {part: value for part, value in change.items() if part not in ("before", "after")}
        first = found.setdefault(repr(sorted(name.items(), key=lambda item: item[0])), dict(change))
        first["after"] = change["after"]
    return [change for change in found.values() if change["before"] != change["after"]]


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    before, after = change["before"], change["after"]
    kind = CREATED if before is None else DELETED if after is None else UPDATED
    states = {at: _struct(state["properties"]) for at, state in (("before", before), ("after", after)) if state}
    return {"kind": kind, **states}


def _node(name: Mapping[str, Any]) -> graph_editor_pb2.NodeReference:
    return graph_editor_pb2.NodeReference(label=name["label"], key=name["key"])


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct
