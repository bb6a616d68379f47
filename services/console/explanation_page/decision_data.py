"""A run's decisions and tables as the page's script reads them: plain lists, small enough to evaluate in fifty lines.

A term is `["fact", name]`, `["limit", name]` or `["value", value]`; a condition is `["always"]`, `["flag", term]`,
`["==", term, term]` and so on, `["in", term, values]`, `["not", condition]`, `["all", conditions]` or
`["any", conditions]`. Names are as they are shown; values are as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import agent_outline_pb2, runs_pb2

from services.kit.text.printing import printable


def page_data(story: runs_pb2.RunExplanation, decisions: Sequence[runs_pb2.Decision]) -> dict[str, Any]:
    """Returns what the page's script decides on: limits, tables by router, decisions with their facts, and charges."""
    return {
        "limits": [
            {
                "name": printable(limit.name),
                "value": plain(limit.value),
                "whole": limit.is_whole,
                "least": limit.least if limit.HasField("least") else None,
                "most": limit.most if limit.HasField("most") else None,
            }
            for limit in story.agent.limits
        ],
        "tables": {
            printable(node.router): [_rule(rule) for rule in node.rules] for node in story.agent.nodes if node.router
        },
        "decisions": [
            {
                "sequence": each.sequence,
                "router": printable(each.router),
                "rule": printable(each.rule),
                "destination": printable(each.destination),
                "facts": {printable(name): value for name, value in MessageToDict(each.facts).items()},
            }
            for each in decisions
        ],
        "charges": [
            {
                "sequence": charge.sequence,
                "tokens": charge.spend.token_usage.total_tokens,
                "ms": charge.spend.wall_time_s * 1000,
                "models": charge.spend.model_calls,
            }
            for charge in story.charges
        ],
    }


def _rule(rule: agent_outline_pb2.RuleOutline) -> dict[str, Any]:
    ways = [[tree(way.when), printable(way.destination)] for way in rule.ways]
    return {"rule": printable(rule.rule), "when": tree(rule.when), "ways": ways}


def tree(condition: agent_outline_pb2.Condition) -> list[Any]:
    """Returns a condition as nested lists. Raises ValueError for one of a kind that this release does not know."""
    kind = condition.WhichOneof("condition")
    if kind == "always":
        return ["always"]
    if kind == "flag":
        return ["flag", _term(condition.flag)]
    if kind == "comparison":
        compared = condition.comparison
        is_term = compared.WhichOneof("other") == "other_term"
        other = _term(compared.other_term) if is_term else ["value", plain(compared.value)]
        return [compared.operator, _term(compared.term), other]
    if kind == "one_of":
        return ["in", _term(condition.one_of.term), [plain(value) for value in condition.one_of.values]]
    if kind == "not":
        return ["not", tree(getattr(condition, "not"))]
    if kind == "all_of":
        return ["all", [tree(each) for each in condition.all_of.conditions]]
    if kind == "any_of":
        return ["any", [tree(each) for each in condition.any_of.conditions]]
    raise ValueError(f"a condition of a kind that this release does not know: {kind}")


def _term(term: agent_outline_pb2.Term) -> list[str]:
    return ["limit" if term.is_limit else "fact", printable(term.name)]


def plain(value: struct_pb2.Value) -> Any:
    """Returns a value as JSON has it."""
    return MessageToDict(value)
