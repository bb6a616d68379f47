"""Nodes, edges, and changes of them: what was before, what is after, and so what takes a change back.

A node is known by label and key, an edge by its type and its two nodes. The revision of either is a digest of what it
holds, so that a change by whatever means is seen, and nothing of ours stands among its properties.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KEY: Final = "key"
LONGEST_KEY: Final = 256
Properties = Mapping[str, Any]
# All labels of the nodes that an edge begins and ends at.
Ends = tuple[frozenset[str], frozenset[str]]


def fits_key(text: str) -> bool:
    """Whether a text can be a key.

    A unique constraint of FalkorDB 4 kills the server over texts that its index trims, splits or cuts: those that begin
    or end with white space, hold a control character, or are longer than 4096 bytes
    (https://github.com/FalkorDB/FalkorDB/issues/1340 and 2440).
    """
    return 0 < len(text) <= LONGEST_KEY and text == text.strip() and not any(ord(each) < 32 for each in text)


@dataclass(frozen=True, order=True)
class NodeName:
    """What a node is known by."""

    label: str
    key: str

    def __str__(self) -> str:
        return f"{self.label} {self.key!r}"

    def to_data(self) -> dict[str, str]:
        """Returns the name as JSON."""
        return {"label": self.label, "key": self.key}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> NodeName:
        """Reads what `to_data` wrote."""
        return cls(data["label"], data["key"])


@dataclass(frozen=True, order=True)
class EdgeName:
    """What an edge is known by."""

    type: str
    start: NodeName
    end: NodeName

    def __str__(self) -> str:
        return f"{self.type} from {self.start} to {self.end}"

    def to_data(self) -> dict[str, Any]:
        """Returns the name as JSON."""
        return {"type": self.type, "from": self.start.to_data(), "to": self.end.to_data()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EdgeName:
        """Reads what `to_data` wrote."""
        return cls(data["type"], NodeName.from_data(data["from"]), NodeName.from_data(data["to"]))


@dataclass(frozen=True)
class NodeState:
    """What a node holds: its labels, sorted, and its properties, the key among them."""

    labels: tuple[str, ...]
    properties: Properties

    @property
    def revision(self) -> str:
        """A digest of it."""
        return _digest([list(self.labels), self.properties])

    def to_data(self) -> dict[str, Any]:
        """Returns the state as JSON."""
        return {"labels": list(self.labels), "properties": dict(self.properties), "revision": self.revision}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> NodeState:
        """Reads what `to_data` wrote."""
        return cls(tuple(data["labels"]), data["properties"])


@dataclass(frozen=True)
class EdgeState:
    """What an edge holds: its properties. `ends` were read with it, if they were, and are no part of what it holds."""

    properties: Properties
    ends: Ends | None = field(default=None, compare=False)

    @property
    def revision(self) -> str:
        """A digest of it."""
        return _digest(self.properties)

    def to_data(self) -> dict[str, Any]:
        """Returns the state as JSON."""
        return {"properties": dict(self.properties), "revision": self.revision}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EdgeState:
        """Reads what `to_data` wrote."""
        return cls(data["properties"])


@dataclass(frozen=True)
class NodeChange:
    """A node before and after; None where it is not there."""

    name: NodeName
    before: NodeState | None
    after: NodeState | None


@dataclass(frozen=True)
class EdgeChange:
    """An edge before and after; None where it is not there."""

    name: EdgeName
    before: EdgeState | None
    after: EdgeState | None


@dataclass(frozen=True)
class Change:
    """What one write does: each node and each edge named once.

    It can be made as long as all of it is as `before` says, and the nodes that it deletes have no other edges.
    """

    nodes: tuple[NodeChange, ...] = ()
    edges: tuple[EdgeChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges)

    @property
    def labels(self) -> frozenset[str]:
        """All labels that it tells of."""
        states = [state for each in self.nodes for state in (each.before, each.after) if state]
        names = [each.name for each in self.nodes]
        names += [end for each in self.edges for end in (each.name.start, each.name.end)]
        return frozenset(name.label for name in names).union(*(state.labels for state in states))

    def inverse(self) -> Change:
        """Returns what takes it back."""
        return Change(
            tuple(NodeChange(each.name, each.after, each.before) for each in self.nodes),
            tuple(EdgeChange(each.name, each.after, each.before) for each in self.edges),
        )

    def to_data(self) -> dict[str, Any]:
        """Returns the change as JSON."""
        return {
            "nodes": [{**each.name.to_data(), **_before_and_after(each)} for each in self.nodes],
            "edges": [{**each.name.to_data(), **_before_and_after(each)} for each in self.edges],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Change:
        """Reads what `to_data` wrote."""
        nodes = [
            NodeChange(NodeName.from_data(each), *(each[at] and NodeState.from_data(each[at]) for at in _MOMENTS))
            for each in data["nodes"]
        ]
        edges = [
            EdgeChange(EdgeName.from_data(each), *(each[at] and EdgeState.from_data(each[at]) for at in _MOMENTS))
            for each in data["edges"]
        ]
        return cls(tuple(nodes), tuple(edges))


_MOMENTS: Final = ("before", "after")


def edges_revision(edges: Mapping[EdgeName, EdgeState]) -> str:
    """Returns a digest of edges: of which there are, and of what each holds."""
    return _digest([[name.to_data(), edges[name].properties] for name in sorted(edges)])


def _before_and_after(change: NodeChange | EdgeChange) -> dict[str, Any]:
    return {at: state and state.to_data() for at, state in zip(_MOMENTS, (change.before, change.after), strict=True)}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
