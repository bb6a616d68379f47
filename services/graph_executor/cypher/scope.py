"""What the names of a query stand for, what its caller may do with it, and what the database is told instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from services.graph_executor.elements import KEY
from services.graph_executor.policy import IDENTIFIER, Access, EdgeRule, GraphPolicy, PropertyRule
from services.kit.tools.executor import ToolRefused

_RESERVED: Final = ("signalbox", "__")


@dataclass(frozen=True)
class Found:
    """What a name stands for: a node with labels, an edge with types, or some value. The database is told `sent`."""

    sent: str
    labels: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass
class Scope:
    """The names of a query so far, for one caller."""

    policy: GraphPolicy
    access: Access
    parameters: Mapping[str, object]
    names: dict[str, Found] = field(default_factory=dict)
    _sent: int = 0

    def bind(self, name: str | None, labels: Iterable[str] = (), types: Iterable[str] = ()) -> Found:
        """Returns what a new name stands for from here on; without a name it is known to the database alone."""
        # A name of the caller's could be a keyword to some server, or one of ours.
        self._sent += 1
        found = Found(f"v{self._sent}", frozenset(labels), frozenset(types))
        if name is not None:
            self.names[check_own(name)] = found
        return found

    def rebind(self, name: str, found: Found) -> Found:
        """Returns the same under another name."""
        return replace(found, sent=self.bind(name).sent)

    def find(self, name: str) -> Found:
        """Returns what a name stands for. Raises ToolRefused."""
        if name not in self.names:
            raise ToolRefused("unknown_name", f"Nothing before this is called {check_own(name)[:40]!r}.")
        return self.names[name]

    def filter(self, sent: str) -> str:
        """Returns the condition by which a node is found: it has labels, and the caller may read each of them."""
        labels = ", ".join(f"'{label}'" for label in sorted(self.access.readable))
        return f"size(labels({sent})) > 0 AND all({sent}l IN labels({sent}) WHERE {sent}l IN [{labels}])"

    def check_label(self, label: str, *, writes: bool = False) -> str:
        """Returns a label that the caller may read, or write. Raises ToolRefused."""
        allowed = self.access.writable if writes else self.access.readable
        if label not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise ToolRefused("unknown_label", f"There is no label {label[:40]!r} for this caller; there are: {known}.")
        return label

    def edge_rule(self, kind: str) -> EdgeRule:
        """Returns the rule of a type of edges. Raises ToolRefused."""
        rule = self.policy.edges.get(kind)
        if rule is None:
            known = ", ".join(sorted(self.policy.edges)) or "none"
            raise ToolRefused("unknown_label", f"There is no edge type {kind[:40]!r}; there are: {known}.")
        return rule

    def properties(self, found: Found, name: str) -> Properties:
        """Returns what may be written to the node or edge that a name stands for. Raises ToolRefused."""
        if found.labels:
            return self.properties_of(found.labels)
        if found.types:
            rules = {each: rule for kind in found.types for each, rule in self.policy.edges[kind].properties.items()}
            return Properties("|".join(sorted(found.types)), rules, frozenset())
        raise ToolRefused("value_undecided", f"{name[:40]!r} is not known as a node or an edge: MATCH it by its label.")

    def properties_of(self, labels: Iterable[str]) -> Properties:
        """Returns what nodes of labels may hold that the caller may write. Raises ToolRefused."""
        labels = sorted(labels)
        rules = [self.policy.labels[self.check_label(label, writes=True)] for label in labels]
        return Properties(
            ":".join(labels),
            {name: rule for each in rules for name, rule in each.properties.items()},
            frozenset({KEY}.union(*(each.required for each in rules))),
        )


@dataclass(frozen=True)
class Properties:
    """What is written to: its kind in words, its properties' rules, and those that must be there."""

    what: str
    rules: Mapping[str, PropertyRule]
    required: frozenset[str]


def check_own(name: str) -> str:
    """Returns a name that a caller may use. Raises ToolRefused."""
    if name.lower().startswith(_RESERVED):
        raise ToolRefused("reserved_name", f"Names may not begin with {' or '.join(_RESERVED)}: {name[:40]!r}.")
    return name


def written_name(name: str) -> str:
    """Returns a label, type or property as it stands in a query."""
    return name if re.match(IDENTIFIER, name) else f"`{name}`"
