"""A graph as its tables see it: nodes that change facts as they declare, and rules that read them. Nothing is executed.

Facts are cut to what rules tell apart; those that nothing reads before they are set anew have no value.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from signalbox_routing.table import END, Router, Rule
from signalbox_routing.terms import TermKind

from services.runtime.routing.effects import Effect, Outcome
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.live_facts import Arrival, LiveFacts
from services.runtime.routing.soundness import reducers_of
from services.runtime.routing.state import BUDGET_SPENT
from services.runtime.routing.variables import NotAModel, Variable, facts_before, variables_of

# A node that is about to run, the rule that led to it where that matters, and the facts, in the order of the variables.
Position = tuple[Any, ...]
_ARRIVAL = 2


@dataclass(frozen=True, slots=True)
class Move:
    """A node that ran: how it ended, what its router then knew, the rule that fired, and where that led.

    `known` and `after` are of the facts that are of any matter there, in the order of the variables.
    """

    node: str
    outcome: str
    router: str
    rule: str
    destination: str
    facts: Mapping[str, Any]
    after: tuple[Any, ...]


class Step(NamedTuple):
    """A move, and the position that it leads to; None is the end."""

    move: Move
    after: Position | None


class _Leap(NamedTuple):
    """A move, and how the position behind it is made: `pick` chooses from the position before it and what is `new`."""

    move: Move
    pick: Callable[[tuple[Any, ...]], Position] | None
    new: tuple[Any, ...]


class Model:
    """A graph's positions and the steps between them.

    With `any_limits` every count is below its limit, at it or above it, and may take as many steps as it likes from the
    one to the other: whatever limits a policy sets, what a run does is among that. Raises NotAModel.
    """

    def __init__(self, graph: AgentGraph, *, any_limits: bool = False) -> None:
        self.graph = graph
        self._any_limits = any_limits
        self._nodes = {node.name: node for node in graph.nodes}
        self._reducers = reducers_of(graph.state)
        self._policies = {router.name: _free(router) if any_limits else router.policy for router in graph.routers}
        self.variables = variables_of(graph, self._policies, any_limits=any_limits)
        self._index = {variable.name: number for number, variable in enumerate(self.variables)}
        self._outcomes = {node.name: self._outcomes_of(node) for node in graph.nodes}
        self._read = {router.name: tuple(self._index[name] for name in router.facts_read) for router in graph.routers}
        self._plain = {router.name: router.facts({}) for router in graph.routers}
        self._check_counts()
        self._live = LiveFacts(graph, self.variables, self._policies)
        # By arrival: facts that nothing reads any more, and those that the node touches.
        self._dead = {arrival: self._numbers(live, among=False) for arrival, live in self._live.before.items()}
        self._touched = {arrival: self._numbers(self._live.touched(arrival)) for arrival in self._live.before}
        # What the moves at a position depend on: its arrival and the facts that are touched there.
        self._matters = {
            arrival: itemgetter(0, 1, *(number + _ARRIVAL for number in touched))
            for arrival, touched in self._touched.items()
        }
        self._leaps: dict[tuple[Any, ...], tuple[list[_Leap], list[_Leap]]] = {}
        self._decided: dict[tuple[str, tuple[Any, ...]], tuple[Rule, str]] = {}

    def beginnings(self) -> list[Position]:
        """Returns where runs begin: the facts of an empty state, and those that come with the input."""
        known = _facts_of_nothing(self.graph)
        options: list[Sequence[Any]] = []
        for variable in self.variables:
            given = [effect for effect in self.graph.given if effect.fact == variable.name]
            start = variable.cut(known[variable.name])
            free = self._any_limits and variable.limited
            options.append(self._after(given[0], start, variable) if given else variable.values if free else [start])
        entry = self.graph.entry
        return list(dict.fromkeys(self._position(entry, "", values) for values in itertools.product(*options)))

    def steps(self, position: Position, *, distinct: bool = False) -> Iterator[Step]:
        """Yields every way on; `distinct` are those that differ by their rule, destination or what follows."""
        key = self._matters[position[:_ARRIVAL]](position)
        if key not in self._leaps:
            node, led_by, *known = key
            moves = list(self._moves_from(node, led_by, known))
            by_effect = {(move.rule, move.destination, move.after): move for move in reversed(moves)}
            leaps = {id(move): self._leap((node, led_by), move) for move in moves}
            self._leaps[key] = list(leaps.values()), [leaps[id(move)] for move in by_effect.values()]
        for move, pick, new in self._leaps[key][distinct]:
            yield Step(move, pick(position + new) if pick else None)

    def _leap(self, at: Arrival, move: Move) -> _Leap:
        if move.destination == END:
            return _Leap(move, None, ())
        arrival, width = self._live.arrival(move.destination, move.rule), _ARRIVAL + len(self.variables)
        new = (*arrival, None, *move.after)
        picked = [width, width + 1, *range(_ARRIVAL, width)]
        for place, number in enumerate(self._touched[at], start=width + _ARRIVAL + 1):
            picked[number + _ARRIVAL] = place
        for number in self._dead[arrival]:
            picked[number + _ARRIVAL] = width + _ARRIVAL
        return _Leap(move, itemgetter(*picked), new)

    def _moves_from(self, name: str, led_by: str, known: Sequence[Any]) -> Iterator[Move]:
        """Yields what a node can do, as far as it or its router touches facts: all others stay as they are."""
        node, touched = self._nodes[name], self._touched[name, led_by]
        values: list[Any] = [None] * len(self.variables)
        for number, value in zip(touched, known, strict=True):
            values[number] = value
        before = {variable.name: value for variable, value in zip(self.variables, values, strict=True)}
        for outcome in self._outcomes[name]:
            if outcome.can_be(before, led_by):
                for changed in self._ended(outcome, values, touched):
                    yield from self._routed(node, outcome, changed, touched)

    def _ended(self, outcome: Outcome, values: Sequence[Any], touched: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        options: list[Sequence[Any]] = [(value,) for value in values]
        for effect in outcome.effects:
            number = self._index.get(effect.fact)
            if number is not None and number in touched:
                options[number] = self._after(effect, values[number], self.variables[number])
        if (number := self._index.get(BUDGET_SPENT)) is not None and values[number] == "":
            # Whatever a node does costs something, and the wrapper adds that up.
            options[number] = self.variables[number].values
        return itertools.product(*options)

    def _after(self, effect: Effect, before: Any, variable: Variable) -> Sequence[Any]:
        stutters = self._any_limits and variable.limited
        if effect.by is not None:
            if before is None:
                return (None,)
            least, most = effect.by
            highest = variable.values[-1] if most is None else before + most
            found = {variable.cut(each) for each in range(before + (0 if stutters else least), highest + 1)}
            found.add(variable.cut(max(highest, before + least)))
        elif not effect.values:
            found = set(variable.values)
        else:
            found = {variable.cut(value) for value in effect.values}
            if stutters and any(isinstance(value, int | float) and value > 0 for value in effect.values):
                found = set(variable.values)
        if effect.may:
            found.add(before)
        return tuple(found)

    def _routed(
        self, node: RoutedNode, outcome: Outcome, values: tuple[Any, ...], touched: Sequence[int]
    ) -> Iterator[Move]:
        facts = {self.variables[number].name: values[number] for number in touched if values[number] is not None}
        if node.router is None:
            after = self._kept(node.then, "", values, touched)
            yield Move(node.name, outcome.name, "", "", node.then, facts, after)
            return
        rule, destination = self._decide(node.router, values)
        options: list[Sequence[Any]] = [(value,) for value in values]
        for name, change in rule.update.items():
            reduce = self._reducers.get(name)
            if (number := self._index.get(name)) is not None and not (reduce and values[number] is None):
                variable = self.variables[number]
                changed = variable.cut(reduce(values[number], change) if reduce else change)
                both = self._any_limits and variable.limited and reduce
                options[number] = (values[number], changed) if both else (changed,)
        for updated in itertools.product(*options):
            after = self._kept(destination, rule.name, updated, touched)
            yield Move(node.name, outcome.name, node.router.name, rule.name, destination, facts, after)

    def _kept(self, to: str, rule: str, values: Sequence[Any], touched: Sequence[int]) -> tuple[Any, ...]:
        """Returns the values of these facts; None of those that nothing reads from there on."""
        live = self._live.before.get(self._live.arrival(to, rule), frozenset())
        return tuple(values[number] if self.variables[number].name in live else None for number in touched)

    def _decide(self, router: Router[Any, Any], values: tuple[Any, ...]) -> tuple[Rule, str]:
        read = tuple(values[number] for number in self._read[router.name])
        key = (router.name, read)
        if key not in self._decided:
            names = [self.variables[number].name for number in self._read[router.name]]
            facts = dataclasses.replace(self._plain[router.name], **dict(zip(names, read, strict=True)))
            self._decided[key] = router.destination_of(facts, self._policies[router.name])
        return self._decided[key]

    def _position(self, node: str, rule: str, values: Sequence[Any]) -> Position:
        arrival = self._live.arrival(node, rule)
        dead = self._dead[arrival]
        return (*arrival, *(None if number in dead else value for number, value in enumerate(values)))

    def _numbers(self, names: Collection[str], *, among: bool = True) -> tuple[int, ...]:
        """Returns the numbers of the variables that are among these, or that are not."""
        return tuple(number for number, each in enumerate(self.variables) if (each.name in names) is among)

    def _outcomes_of(self, node: RoutedNode) -> tuple[Outcome, ...]:
        if node.outcomes is None:
            raise NotAModel(f"{self.graph.name}: the node {node.name!r} does not say what it may change")
        for outcome in node.outcomes:
            if unknown := facts_before(outcome) - self._index.keys():
                told = f"{node.name!r} looks at {', '.join(sorted(unknown))}, which no rule reads"
                raise NotAModel(f"{self.graph.name}: {told}")
        return node.outcomes

    def _check_counts(self) -> None:
        """Raises NotAModel for a count that is anything at times: below what is looked at, it could rise unseen."""
        effects = [effect for outcomes in self._outcomes.values() for outcome in outcomes for effect in outcome.effects]
        raised = {effect.fact for effect in effects if effect.by is not None}
        for effect in effects:
            if effect.fact in raised & self._index.keys() and not effect.values and effect.by is None:
                raise NotAModel(
                    f"{self.graph.name}: {effect.fact} is raised by some nodes and set to anything by others"
                )


def _facts_of_nothing(graph: AgentGraph) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for router in graph.routers:
        facts = router.facts({})
        for name in router.facts_read:
            if known.setdefault(name, getattr(facts, name)) != getattr(facts, name):
                raise NotAModel(f"{graph.name}: {name} is not the same fact in {router.name} as in a table before it")
    return known


def _free(router: Router[Any, Any]) -> Any:
    """Returns a policy in which every limit of a count is 1: what is below it stands for all that is."""
    limits = {
        term.name: 1 for term in router.terms if term.record is type(router.policy) and term.kind is TermKind.INTEGER
    }
    return dataclasses.replace(router.policy, **limits)
