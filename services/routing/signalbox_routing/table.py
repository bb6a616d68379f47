"""Routers as data: an ordered table of named rules over (facts, policy); the first rule that holds wins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_type_hints

from langgraph.types import Command

from signalbox_routing.compiled import FACTS, Records, first_that_holds, reader
from signalbox_routing.facts import Facts, Record, as_dict
from signalbox_routing.terms import Always, Condition, InvalidTableError, Term, condition, terms_of

END: Final = "__end__"
# The state field that names what ended a run before its answer.
STOP_REASON: Final = "stop_reason"
State = Mapping[str, Any]
StateUpdate = dict[str, Any]


FactsT = TypeVar("FactsT", bound=Record)
PolicyT = TypeVar("PolicyT", bound=Record)


@dataclass(frozen=True)
class NoLimits:
    """The policy of a table that has no limits."""


NO_LIMITS: Final = NoLimits()


class Several(str):
    """Nodes that one rule leads to at once; as a text, their names with commas between."""

    __slots__ = ("places",)
    places: tuple[str, ...]

    def __new__(cls, *places: str) -> Several:
        made = super().__new__(cls, ", ".join(places))
        made.places = places
        return made


class NoWayError(Exception):
    """A state from which a table leads nowhere; the message is what its rule says."""


class UnkeptFactsError(ValueError):
    """Facts that a ledger can't keep so that they decide alike, such as an infinite number."""


@dataclass(frozen=True)
class Choice:
    """Several destinations of one rule: the first whose condition holds, else the last one."""

    cases: tuple[tuple[Condition, str], ...]
    otherwise: str


def either(destination: str, when: Condition, otherwise: str) -> Choice:
    """Leads to one place when a condition holds, else to another."""
    return Choice(((condition(when), destination),), otherwise)


def named_by(fact: Term, among: Sequence[str]) -> Choice:
    """Leads to the place that a fact names; a rule with it holds only where that is among these."""
    *first, last = among
    return Choice(tuple((fact == name, name) for name in first), last)


@dataclass(frozen=True)
class Rule:
    """A named rule: where to go when its condition holds, and what that changes in state.

    `then` is given the rule's name; what it returns lands in the same superstep as the decision. A rule that no run can
    come to, under any limits, says why it is there all the same. Where one that `raises` holds, NoWayError says so.
    """

    name: str
    to: str | Choice
    when: Condition
    then: Callable[[str], StateUpdate] | None = None
    unreachable_because: str = ""
    raises: str = ""

    def __post_init__(self) -> None:
        condition(self.when)

    @property
    def update(self) -> StateUpdate:
        """What the rule changes in state."""
        return self.then(self.name) if self.then else {}

    @property
    def is_breaker(self) -> bool:
        """Whether it ends a run before its answer."""
        return STOP_REASON in self.update

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where the rule can lead."""
        return (*(to for _, to in self.to.cases), self.to.otherwise) if isinstance(self.to, Choice) else (self.to,)

    @property
    def choice(self) -> tuple[Condition, ...]:
        """What decides between its destinations."""
        return tuple(case for case, _ in self.to.cases) if isinstance(self.to, Choice) else ()


@dataclass(frozen=True)
class Tried:
    """A rule that was tried, and the facts and limits it read."""

    rule: str
    grounds: dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """What a table decided and why."""

    rule: str
    destination: str
    update: StateUpdate
    grounds: dict[str, Any]
    rejected: tuple[Tried, ...]
    facts: dict[str, Any]


class _CompiledRule:
    """A rule of a table, with functions of facts and policy for what is asked of it."""

    def __init__(self, rule: Rule, records: Records) -> None:
        self.name = rule.name
        self.then = rule.then
        self._destinations = rule.destinations
        self._chosen = first_that_holds((*rule.choice, Always()), records)
        tried = terms_of(rule.when)
        decided = {term.key: term for each in (rule.when, *rule.choice) for term in terms_of(each)}
        self.tried_grounds = reader(tried, records)
        self.grounds = reader(tuple(decided.values()), records)

    def destination(self, facts: Any, policy: Any) -> str:
        """Returns where the rule leads on these facts."""
        return self._destinations[self._chosen(facts, policy)]


class Router(Generic[FactsT, PolicyT]):
    """A decision table with the facts it takes from state and the limits it holds them against.

    It is a path function of LangGraph's: `graph.add_conditional_edges("agent", router)`. `facts` is a function of the
    state, or a record whose fields say how each is read (`fact`).

    Raises InvalidTableError for a table that is not total, or whose conditions are not about these two records.
    """

    def __init__(
        self,
        name: str,
        *,
        facts: Callable[[State], FactsT] | type[FactsT],
        policy: PolicyT = cast(Any, NO_LIMITS),  # noqa: B008 - it is frozen
        rules: Sequence[Rule],
    ) -> None:
        self.name = name
        self.rules = tuple(rules)
        self.policy = policy
        self.facts_type: type[FactsT] = facts if isinstance(facts, type) else get_type_hints(facts)["return"]
        self._given = facts
        _check_table(self)
        records = Records(self.facts_type, type(policy))
        self._facts = Facts(facts, [each for rule in self.rules for each in (rule.when, *rule.choice)])
        self._first = first_that_holds([rule.when for rule in self.rules], records)
        self._compiled = tuple(_CompiledRule(rule, records) for rule in self.rules)
        # What LangGraph asks a path function for: its name, and where it leads.
        self.__name__ = name.rpartition(".")[2]
        places = {place: None for to in self.destinations for place in _places(to)}
        self.__annotations__ = {"return": Literal[tuple(places)]}

    def __call__(self, state: Any) -> str | list[str]:
        """Returns the node, or the nodes, that a state leads to. Raises what reading it raises, and NoWayError."""
        if any(rule.then for rule in self.rules):
            raise InvalidTableError(
                f"{self.name} changes state, as no edge can: return its `command(state)` from a node"
            )
        _, destination = self._led(self._facts.asked(state))
        return as_returned(destination)

    def command(self, state: Any) -> Command[str]:
        """Returns where a state leads, and what the rule changes in it, for a node to return."""
        number, destination = self._led(self._facts.asked(state))
        return Command(update=self.rules[number].update, goto=_places(destination))

    def under(self, policy: Any, name: str = "") -> Router[FactsT, Any]:
        """Returns this table with other limits, of the same record or one made of it."""
        return Router(name or self.name, facts=self._given, policy=policy, rules=self.rules)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The facts and limits that its rules read, each once, in table order."""
        read = (term for rule in self.rules for each in (rule.when, *rule.choice) for term in terms_of(each))
        return tuple({term.key: term for term in read}.values())

    @property
    def destinations(self) -> dict[str, list[str]]:
        """Rule names by the destination they lead to, in table order."""
        found: dict[str, list[str]] = {}
        for rule in self.rules:
            for destination in rule.destinations:
                found.setdefault(destination, []).append(rule.name)
        return found

    @cached_property
    def facts_read(self) -> tuple[str, ...]:
        """The facts among them, by name."""
        return tuple(term.name for term in self.terms if term.record is self.facts_type)

    def facts(self, state: State) -> FactsT:
        """Takes the facts from state; one that can't be read has a value that no rule of the table asks for."""
        return cast(FactsT, self._facts.kept(self._facts.asked(state)))

    def decide(self, state: State) -> Decision:
        """Tries the rules in order on facts taken from state.

        Raises what reading the state raises, NoWayError and UnkeptFactsError.
        """
        asked = self._facts.asked(state)
        facts = self._facts.kept(asked)
        if facts is asked:
            return self.decide_on(facts)
        _, destination = self._led(asked)
        decision = self.decide_on(facts)
        if decision.destination != destination:
            raise UnkeptFactsError(f"{self.name}: kept as {decision.facts}, facts would lead to {decision.destination}")
        return decision

    def decide_on(self, facts: FactsT, policy: PolicyT | None = None) -> Decision:
        """Tries the rules in order on facts already taken, under this policy or another."""
        limits = self.policy if policy is None else policy
        number = self._first(facts, limits)
        rule = self._compiled[number]
        rejected = tuple(Tried(each.name, each.tried_grounds(facts, limits)) for each in self._compiled[:number])
        update = rule.then(rule.name) if rule.then else {}
        grounds = rule.grounds(facts, limits)
        return Decision(rule.name, rule.destination(facts, limits), update, grounds, rejected, as_dict(facts))

    def destination_of(self, facts: FactsT, policy: PolicyT | None = None) -> tuple[Rule, str]:
        """Returns the rule that holds and where it leads, and nothing of why."""
        number, destination = self._decided(facts, self.policy if policy is None else policy)
        return self.rules[number], destination

    def _led(self, asked: Any) -> tuple[int, str]:
        number, destination = self._decided(asked, self.policy)
        if said := self.rules[number].raises:
            raise NoWayError(f"{self.name}: {said}")
        return number, destination

    def _decided(self, facts: Any, policy: Any) -> tuple[int, str]:
        number = self._first(facts, policy)
        return number, self._compiled[number].destination(facts, policy)


def as_returned(destination: str) -> str | list[str]:
    """Returns a destination as a path function does: a node, or a list of them."""
    return list(destination.places) if isinstance(destination, Several) else destination


def _places(destination: str) -> tuple[str, ...]:
    return destination.places if isinstance(destination, Several) else (destination,)


def _check_table(router: Router[Any, Any]) -> None:
    name, rules = router.name, router.rules
    if not dataclasses.is_dataclass(router.policy):
        raise InvalidTableError(f"{name}: a policy must be a frozen dataclass")
    if not rules or not isinstance(rules[-1].when, Always):
        raise InvalidTableError(f"{name}: the last rule must always hold")
    names = [rule.name for rule in rules]
    if len(set(names)) != len(names) or any(isinstance(rule.when, Always) for rule in rules[:-1]):
        raise InvalidTableError(f"{name}: a rule is named twice or hides the ones after it")
    try:
        records = Records(router.facts_type, type(router.policy))
        kinds = {term.key: records.name_of(term) for term in router.terms}
    except InvalidTableError as error:
        raise InvalidTableError(f"{name}: {error}") from error
    facts = {field for (_, field), record in kinds.items() if record == FACTS}
    if both := facts & {field for (_, field), record in kinds.items() if record != FACTS}:
        raise InvalidTableError(
            f"{name}: {', '.join(sorted(both))} is a fact and a limit: a decision's grounds have one"
        )
