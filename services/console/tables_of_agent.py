"""What decides at each node of an agent: its rules in words, with the limits that these hold facts against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import agent_outline_pb2, agents_pb2, hosted_pb2

from services.console.explanation_page.decision_data import tree
from services.kit.text.printing import printable

KINDS: Mapping[int, str] = {
    hosted_pb2.DECIDED_BY_TABLE: "by a table",
    hosted_pb2.DECIDED_BY_LIFTED: "by code, lifted to a table",
    hosted_pb2.DECIDED_BY_CODE: "by code",
}
_TEXTS = {"==": "is", "!=": "is not"}


@dataclass(frozen=True)
class RuleInWords:
    """A rule: what it asks for, and where it leads."""

    rule: str
    condition: str
    destinations: Sequence[str]


@dataclass(frozen=True)
class DecidedNode:
    """A node after which something is decided, and by what."""

    node: str
    router: str
    kind: str
    rules: Sequence[RuleInWords]


@dataclass(frozen=True)
class ReadLimit:
    """A limit that rules read: its value, and where that comes from."""

    name: str
    value: struct_pb2.Value
    origin: int | None


def decided_nodes(outline: agent_outline_pb2.AgentOutline) -> Sequence[DecidedNode]:
    """Returns the nodes after which something is decided, in the graph's order."""
    limits = {limit.name: limit.value for limit in outline.limits}
    return [
        DecidedNode(
            node.node,
            node.router,
            KINDS.get(node.decided_by, "by a table"),
            [
                RuleInWords(
                    rule.rule,
                    in_words(tree(rule.when), limits),
                    list(dict.fromkeys(way.destination for way in rule.ways)),
                )
                for rule in node.rules
            ],
        )
        for node in outline.nodes
        if node.rules or node.decided_by == hosted_pb2.DECIDED_BY_CODE
    ]


def read_limits(outline: agent_outline_pb2.AgentOutline, agent: agents_pb2.Agent) -> Sequence[ReadLimit]:
    """Returns the limits that an agent's rules read; one without an origin is set in the code."""
    origins = {limit.name: limit.origin for limit in agent.policy.limits}
    return [ReadLimit(limit.name, limit.value, origins.get(limit.name)) for limit in outline.limits]


def in_words(condition: Sequence[Any], limits: Mapping[str, struct_pb2.Value]) -> str:
    """Returns a condition as a person would say it, limits with their values."""
    match condition:
        case ["always"]:
            return "always"
        case ["flag", term]:
            return _term(term, limits)
        case ["in", term, values]:
            return f"{_term(term, limits)} is {' or '.join(_value(value) for value in values)}"
        case ["not", ["in", term, values]]:
            return f"{_term(term, limits)} is neither {' nor '.join(_value(value) for value in values)}"
        case ["not", part]:
            return f"not {_grouped(part, limits)}"
        case ["all" | "any" as how, parts]:
            return (" and " if how == "all" else " or ").join(_grouped(part, limits) for part in parts)
        case [operator, term, other]:
            is_text = other[0] == "value" and isinstance(other[1], str | bool)
            said = _TEXTS.get(operator, operator) if is_text else operator
            return f"{_term(term, limits)} {said} {_term(other, limits)}"
    raise ValueError(f"a condition of a kind that this release does not know: {condition[0]}")


def _grouped(part: Sequence[Any], limits: Mapping[str, struct_pb2.Value]) -> str:
    said = in_words(part, limits)
    return f"({said})" if part[0] in ("all", "any") else said


def _term(term: Sequence[Any], limits: Mapping[str, struct_pb2.Value]) -> str:
    kind, value = term
    if kind == "value":
        return _value(value)
    if kind == "limit" and value in limits:
        given = limits[value]
        return f"{value} ({_value(given.number_value if given.HasField('number_value') else given.string_value)})"
    return str(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f'"{printable(value)}"' if value else "empty"
    return f"{value:g}"
