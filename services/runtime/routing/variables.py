"""The facts of a graph's model. Every fact has few values there: those that tell apart what it is held against.

A count ends with the first number from which on all are alike; of all other facts there is one value for each way in
which they can answer what rules ask of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from signalbox_routing.facts import Record
from signalbox_routing.table import Router
from signalbox_routing.terms import (
    IN_PYTHON,
    InvalidTableError,
    Operator,
    Term,
    TermKind,
    Value,
    terms_of,
    tests_of,
)

from services.runtime.routing.effects import Outcome
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.soundness import reducers_of

# How a fact is held against a value.
Test = tuple[Operator, Value]
MOST_VALUES = 2000
_OTHER = "…"


class NotAModel(InvalidTableError):
    """A graph about which nothing can be said: a node that declares nothing, or facts that can't be cut."""


@dataclass(frozen=True)
class Variable:
    """A fact, and one value for all that nothing tells apart; `limited` where it is held against a limit of the policy.

    A `counted` one is every number up to the last that matters: what is added to it tells numbers apart, too.
    """

    name: str
    kind: TermKind
    values: tuple[Any, ...]
    limited: bool
    counted: bool
    tests: tuple[Test, ...]

    def cut(self, value: Any) -> Any:
        """Returns the value that stands for this one."""
        if self.counted:
            if value < self.values[0]:
                # How far below it is would tell how long it rises.
                raise NotAModel(f"{self.name} can be {value}: a count is never below {self.values[0]}")
            return min(value, self.values[-1])
        return self._stands_for[_answers(value, self.tests)]

    @cached_property
    def _stands_for(self) -> dict[tuple[bool, ...], Any]:
        return {_answers(value, self.tests): value for value in self.values}


def facts_before(outcome: Outcome) -> frozenset[str]:
    """Returns the facts that an outcome is bound to."""
    return frozenset(term.name for term in terms_of(outcome.when)) if outcome.when is not None else frozenset()


@dataclass
class _HeldAgainst:
    """What a fact is held against: in which ways, and the limits and other constants that it is held against."""

    kind: TermKind
    tests: dict[Test, None] = dataclasses.field(default_factory=dict)
    limits: set[str] = dataclasses.field(default_factory=set)
    constants: set[Any] = dataclasses.field(default_factory=set)


def variables_of(graph: AgentGraph, policies: Mapping[str, Record], *, any_limits: bool) -> tuple[Variable, ...]:
    """Returns the facts that a graph's rules read, with the values that tell apart what they are held against.

    Raises NotAModel.
    """
    found = _read_by_rules(graph.routers, policies)
    for outcome in (outcome for node in graph.nodes for outcome in node.outcomes or ()):
        for term, compared, other in tests_of(outcome.when) if outcome.when is not None else ():
            if term.name in found and not isinstance(other, Term):
                found[term.name].tests[compared, other] = None
                found[term.name].constants.add(other)
    for name, fact in found.items():
        if any_limits and fact.kind.is_numeric and fact.limits and len(fact.limits) + len(fact.constants) > 1:
            told = ", ".join([*sorted(fact.limits), *map(str, sorted(fact.constants))])
            raise NotAModel(f"{graph.name}: {name} has more than one limit, of which either may be higher: {told}")
    counted = _counted(graph)
    return tuple(_variable(name, fact, counted=name in counted) for name, fact in found.items())


def variables_of_table(router: Router[Any, Any]) -> tuple[Variable, ...]:
    """Returns the facts of one table, with the values that its rules tell apart. Raises NotAModel."""
    found = _read_by_rules([router], {router.name: router.policy})
    return tuple(_variable(name, fact, counted=False) for name, fact in found.items())


def _read_by_rules(routers: Iterable[Router[Any, Any]], policies: Mapping[str, Record]) -> dict[str, _HeldAgainst]:
    found: dict[str, _HeldAgainst] = {}
    for router in routers:
        conditions = [condition for rule in router.rules for condition in (rule.when, *rule.choice)]
        for term, compared, other in (test for condition in conditions for test in tests_of(condition)):
            if term.record is router.facts_type:
                fact = found.setdefault(term.name, _HeldAgainst(term.kind))
                fact.tests[compared, _value_of(other, router, policies[router.name])] = None
                if isinstance(other, Term):
                    fact.limits.add(other.name)
                else:
                    fact.constants.add(other)
    return found


def _value_of(other: Any, router: Router[Any, Any], policy: Record) -> Any:
    if not isinstance(other, Term):
        return other
    if other.record is router.facts_type:
        raise NotAModel(f"{router.name} holds a fact against {other!r}, another: make a fact of which is larger")
    return getattr(policy, other.name)


def _counted(graph: AgentGraph) -> set[str]:
    """Returns the facts to which nodes or rules add."""
    effects = [effect for node in graph.nodes for outcome in node.outcomes or () for effect in outcome.effects]
    updated = {name for router in graph.routers for rule in router.rules for name in rule.update}
    return {effect.fact for effect in effects if effect.by is not None} | (updated & reducers_of(graph.state).keys())


def _variable(name: str, fact: _HeldAgainst, *, counted: bool) -> Variable:
    tests = tuple(fact.tests)
    values = _told_apart(name, fact.kind, [value for _, value in tests])
    counted = counted and fact.kind is TermKind.INTEGER
    if counted:
        while len(values) > 1 and _answers(values[-1], tests) == _answers(values[-2], tests):
            values = values[:-1]
    else:
        # Of those that are alike, the one next to nothing stands for all: it reads best.
        nearest = sorted(values, key=abs) if fact.kind is TermKind.INTEGER else values
        values = tuple({_answers(value, tests): value for value in reversed(nearest)}.values())[::-1]
    return Variable(name, fact.kind, values, fact.kind.is_numeric and bool(fact.limits), counted, tests)


def _answers(value: Any, tests: Iterable[Test]) -> tuple[bool, ...]:
    return tuple(IN_PYTHON[compared](value, other) for compared, other in tests)


def as_read(value: Any) -> str:
    """Returns a value as a walk shows it; the text that stands for all that no rule names is only `something else`."""
    return "something else" if isinstance(value, str) and value.endswith(_OTHER) else repr(value)


def _told_apart(name: str, kind: TermKind, against: Sequence[Any]) -> tuple[Any, ...]:
    """Returns values of which each has one like it among them, for whatever it is held against."""
    if kind is TermKind.FLAG:
        return (False, True)
    if kind is TermKind.TEXT:
        known = sorted(set(against))
        return (*known, "".join(known) + _OTHER)
    if kind is TermKind.INTEGER:
        low, high = min(0, math.floor(min(against)) - 1), math.ceil(max(against)) + 1
        if high - low > MOST_VALUES:
            raise NotAModel(f"{name} is held against {high - 1}, and has too many values to look at")
        return tuple(range(low, high + 1))
    points = sorted(set(against))
    between = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    return tuple(sorted({points[0] - 1, *points, *between, points[-1] + 1}))
