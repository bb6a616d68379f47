"""From an agent's graph and tables to the proto: conditions as data, for whoever wants to decide once more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import annotated_types
from google.protobuf import struct_pb2
from signalbox.v1 import agent_outline_pb2 as outline_pb2
from signalbox.v1 import hosted_pb2
from signalbox_routing.compiled import FACTS, Records
from signalbox_routing.facts import Record
from signalbox_routing.table import Router, Rule
from signalbox_routing.terms import (
    AllOf,
    Always,
    AnyOf,
    Comparison,
    Condition,
    Not,
    OneOf,
    Term,
    TermKind,
    Value,
)

from services.runtime.agents.policies import bounds_of
from services.runtime.api.wire import DECIDED_BY
from services.runtime.hosted.graph import HostedNode
from services.runtime.routing.graph import AgentGraph, RoutedNode


def outline_proto(graph: AgentGraph, policy: Record) -> outline_pb2.AgentOutline:
    """Returns an agent's graph, its tables, and the limits that these read, with their values under a policy.

    Limits of lifted tables are in the code, and no policy's.
    """
    return outline_pb2.AgentOutline(
        graph_version=graph.version,
        entry=graph.entry,
        nodes=[_node(node) for node in graph.nodes],
        limits=_limits(graph, policy),
    )


def _node(node: RoutedNode) -> outline_pb2.NodeOutline:
    if isinstance(node, HostedNode):
        then = node.then if len(node.ways) == 1 else ""
        table = node.lifted
        return outline_pb2.NodeOutline(
            node=node.name,
            then=then,
            destinations=node.ways,
            router=table.name if table else "",
            rules=rules_proto(table) if table else [],
            decided_by=DECIDED_BY.get(node.decided_by),
            reads=node.reads,
        )
    if node.router is None:
        return outline_pb2.NodeOutline(node=node.name, then=node.then)
    return outline_pb2.NodeOutline(
        node=node.name,
        router=node.router.name,
        rules=rules_proto(node.router),
        decided_by=hosted_pb2.DECIDED_BY_TABLE,
    )


def rules_proto(router: Router[Any, Any]) -> list[outline_pb2.RuleOutline]:
    """Returns a table's rules, in order."""
    records = Records(router.facts_type, type(router.policy))
    return [
        outline_pb2.RuleOutline(
            rule=rule.name,
            when=condition_proto(rule.when, records),
            ways=_ways(rule, records),
            is_breaker=rule.is_breaker,
        )
        for rule in router.rules
    ]


def _ways(rule: Rule, records: Records) -> Iterator[outline_pb2.WayOutline]:
    for condition, destination in zip((*rule.choice, Always()), rule.destinations, strict=True):
        yield outline_pb2.WayOutline(when=condition_proto(condition, records), destination=destination)


def condition_proto(condition: Condition, records: Records) -> outline_pb2.Condition:
    """Returns a condition. Raises TypeError for what is none."""
    match condition:
        case Always():
            return outline_pb2.Condition(always=True)
        case Term():
            return outline_pb2.Condition(flag=_term(condition, records))
        case Comparison(term, operator, other):
            comparison = outline_pb2.Comparison(term=_term(term, records), operator=operator)
            if isinstance(other, Term):
                comparison.other_term.CopyFrom(_term(other, records))
            else:
                comparison.value.CopyFrom(_value(other))
            return outline_pb2.Condition(comparison=comparison)
        case OneOf(term, values):
            membership = outline_pb2.Membership(term=_term(term, records), values=map(_value, values))
            return outline_pb2.Condition(one_of=membership)
        case Not(part):
            # A field of this name can't be given as an argument.
            negated = outline_pb2.Condition()
            getattr(negated, "not").CopyFrom(condition_proto(part, records))
            return negated
        case AllOf(parts):
            return outline_pb2.Condition(all_of=_list(parts, records))
        case AnyOf(parts):
            return outline_pb2.Condition(any_of=_list(parts, records))
    raise TypeError(f"{condition!r} is not a condition")


def _list(parts: tuple[Condition, ...], records: Records) -> outline_pb2.ConditionList:
    return outline_pb2.ConditionList(conditions=[condition_proto(part, records) for part in parts])


def _term(term: Term, records: Records) -> outline_pb2.Term:
    return outline_pb2.Term(name=term.name, is_limit=records.name_of(term) != FACTS)


def _value(value: Value) -> struct_pb2.Value:
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    return struct_pb2.Value(number_value=value)


def _limits(graph: AgentGraph, policy: Record) -> Iterator[outline_pb2.LimitOutline]:
    read = dict[str, tuple[Term, Record]]()
    for router in graph.routers:
        limits = policy if isinstance(policy, type(router.policy)) else router.policy
        read |= {term.name: (term, limits) for term in router.terms if term.record is not router.facts_type}
    for name, (term, limits) in read.items():
        kind = type(limits)
        least, most = _least_and_most(bounds_of(kind)[name])
        yield outline_pb2.LimitOutline(
            name=name,
            value=_value(get_type_hints(kind)[name](getattr(limits, name))),
            is_whole=term.kind is TermKind.INTEGER,
            least=least,
            most=most,
        )


def _least_and_most(hint: Any) -> tuple[float | None, float | None]:
    """Returns the bounds of an annotated type, inclusive; None where it has none."""
    least: Any = None
    most: Any = None
    for mark in (part for argument in get_args(hint)[1:] for part in getattr(argument, "metadata", [argument])):
        least = mark.ge if isinstance(mark, annotated_types.Ge) else least
        most = mark.le if isinstance(mark, annotated_types.Le) else most
    return least, most
