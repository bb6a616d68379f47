"""Which facts may still be read when a node is about to run: all others make no two positions of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from signalbox_routing.facts import Record
from signalbox_routing.table import Router, Rule
from signalbox_routing.terms import (
    IN_PYTHON,
    AllOf,
    Always,
    AnyOf,
    Comparison,
    Condition,
    InvalidTableError,
    Not,
    OneOf,
    Term,
    Value,
)

from services.runtime.routing.effects import Outcome
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.soundness import reducers_of
from services.runtime.routing.state import BUDGET_SPENT
from services.runtime.routing.variables import Variable, facts_before

# A node, and the rule that led to it where that matters.
Arrival = tuple[str, str]
# A rule, or nothing where no router decides, and where it leads.
Way = tuple[Rule | None, str]
ValuesOf = Callable[[Term | Value], Collection[Any]]


class LiveFacts:
    """The facts that may be read once a node was led to by a rule, before something sets them anew.

    An outcome that makes a fact one of few values leaves only the rules that can fire on these: unreachable branches
    keep no fact alive.
    """

    def __init__(self, graph: AgentGraph, variables: Collection[Variable], policies: Mapping[str, Record]) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._variables = {variable.name: variable for variable in variables}
        self._policies = policies
        self._reducers = reducers_of(graph.state)
        self._led_by = {
            name: frozenset(rule for outcome in node.outcomes or () for rule in outcome.led_by)
            for name, node in self._nodes.items()
        }
        # By node: its outcomes, and with each the rules that can fire after it, and where these lead.
        self._outcomes = {
            node.name: [(outcome, list(self._ways_of(node, outcome))) for outcome in node.outcomes or ()]
            for node in graph.nodes
        }

    def arrival(self, node: str, rule: str) -> Arrival:
        """Returns how a rule leads to a node."""
        return node, rule if rule in self._led_by.get(node, ()) else ""

    @cached_property
    def before(self) -> dict[Arrival, frozenset[str]]:
        """The live facts by arrival; nothing is read at the end."""
        live = {(name, rule): frozenset[str]() for name in self._nodes for rule in ("", *self._led_by[name])}
        while True:
            found = {arrival: self._before(arrival, live) for arrival in live}
            if found == live:
                return live
            live = found

    def touched(self, arrival: Arrival) -> frozenset[str]:
        """Returns the facts that a node or its router reads or changes, of those that are read there or behind it."""
        own = _read_by(self._nodes[arrival[0]])
        named, read, looked_at = {BUDGET_SPENT, *own}, set(own), set[str]()
        for outcome, ways in self._outcomes_at(arrival):
            named |= {effect.fact for effect in outcome.effects}
            looked_at |= facts_before(outcome)
            for rule, destination in ways:
                named |= rule.update.keys() if rule else set()
                read |= self._behind(rule, destination, self.before)
        return frozenset(named & read | looked_at)

    def _before(self, arrival: Arrival, live: Mapping[Arrival, frozenset[str]]) -> frozenset[str]:
        before = set[str]()
        for outcome, ways in self._outcomes_at(arrival):
            after = set(_read_by(self._nodes[arrival[0]]))
            for rule, destination in ways:
                set_anew = rule.update.keys() - self._reducers.keys() if rule else set()
                after |= self._behind(rule, destination, live) - set_anew
            before |= after - {effect.fact for effect in outcome.effects if effect.by is None and not effect.may}
            before |= facts_before(outcome)
        return frozenset(before)

    def _behind(self, rule: Rule | None, to: str, live: Mapping[Arrival, frozenset[str]]) -> frozenset[str]:
        return live.get(self.arrival(to, rule.name if rule else ""), frozenset())

    def _outcomes_at(self, arrival: Arrival) -> Iterator[tuple[Outcome, Sequence[Way]]]:
        name, rule = arrival
        return (each for each in self._outcomes[name] if not each[0].led_by or rule in each[0].led_by)

    def _ways_of(self, node: RoutedNode, outcome: Outcome) -> Iterator[Way]:
        if node.router is None:
            yield None, node.then
            return
        values_of = self._values_after(outcome, node.router)
        for rule in node.router.rules:
            answers = answers_of(rule.when, values_of)
            if True in answers:
                yield from ((rule, destination) for destination in rule.destinations)
            if False not in answers:
                return

    def _values_after(self, outcome: Outcome, router: Router[Any, Any]) -> ValuesOf:
        possible: dict[str, Collection[Any]] = {name: each.values for name, each in self._variables.items()}
        for effect in outcome.effects:
            variable = self._variables.get(effect.fact)
            # A limit can be any in some models, and what is held against one is then all that it can be.
            if variable and effect.values and not effect.may and not variable.limited:
                possible[effect.fact] = {variable.cut(value) for value in effect.values}
        policy = self._policies[router.name]

        def values_of(operand: Term | Value) -> Collection[Any]:
            if not isinstance(operand, Term):
                return (operand,)
            return possible[operand.name] if operand.record is router.facts_type else (getattr(policy, operand.name),)

        return values_of


def _read_by(node: RoutedNode) -> Sequence[str]:
    return node.router.facts_read if node.router else ()


def answers_of(condition: Condition, values_of: ValuesOf) -> frozenset[bool]:
    """Returns how a condition can be answered, where each term has any of its values, whatever the others have."""
    match condition:
        case Always():
            return frozenset({True})
        case Term():
            return frozenset(bool(value) for value in values_of(condition))
        case Comparison(term, compared, other):
            test = IN_PYTHON[compared]
            return frozenset(test(left, right) for left in values_of(term) for right in values_of(other))
        case OneOf(term, values):
            return frozenset(value in values for value in values_of(term))
        case Not(part):
            return frozenset(not answer for answer in answers_of(part, values_of))
        case AllOf(parts):
            known = [answers_of(part, values_of) for part in parts]
            return _either(all(True in each for each in known), any(False in each for each in known))
        case AnyOf(parts):
            known = [answers_of(part, values_of) for part in parts]
            return _either(any(True in each for each in known), all(False in each for each in known))
    raise InvalidTableError(f"{condition!r} is not a condition")


def _either(can_hold: bool, can_fail: bool) -> frozenset[bool]:
    return frozenset(answer for answer, can_be in ((True, can_hold), (False, can_fail)) if can_be)
