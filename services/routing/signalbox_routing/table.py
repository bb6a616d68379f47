"""Routers as data: an ordered table of named rules over (facts, policy); the first rule that holds wins."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, get_type_hints

import orjson

from signalbox_routing.compiled import FACTS, Records, first_that_holds, reader
from signalbox_routing.terms import Always, Condition, InvalidTableError, Term, condition, terms_of

END: Final = "__end__"
# The state field that names what ended a run before its answer.
STOP_REASON: Final = "stop_reason"
State = Mapping[str, Any]
StateUpdate = dict[str, Any]


class Record(Protocol):
    """A frozen dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


FactsT = TypeVar("FactsT", bound=Record)
PolicyT = TypeVar("PolicyT", bound=Record)


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
    come to, under any limits, says why it is there all the same.
    """

    name: str
    to: str | Choice
    when: Condition
    then: Callable[[str], StateUpdate] | None = None
    unreachable_because: str = ""

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
    """A decision table with the facts it takes from state and the policy it holds them against.

    Raises InvalidTableError for a table that is not total, or whose conditions are not about these two records.
    """

    def __init__(
        self,
        name: str,
        *,
        facts: Callable[[State], FactsT],
        policy: PolicyT,
        rules: Sequence[Rule],
    ) -> None:
        self.name = name
        self.rules = tuple(rules)
        self.policy = policy
        self.policy_version = policy_version(policy)
        self.facts_type: type[FactsT] = get_type_hints(facts)["return"]
        self._facts = facts
        _check_table(self)
        records = Records(self.facts_type, type(policy))
        self._first = first_that_holds([rule.when for rule in self.rules], records)
        self._compiled = tuple(_CompiledRule(rule, records) for rule in self.rules)

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
        """Takes the facts from state."""
        return self._facts(state)

    def decide(self, state: State) -> Decision:
        """Tries the rules in order on facts taken from state."""
        return self.decide_on(self._facts(state))

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
        limits = self.policy if policy is None else policy
        number = self._first(facts, limits)
        return self.rules[number], self._compiled[number].destination(facts, limits)


def _check_table(router: Router[Any, Any]) -> None:
    name, rules = router.name, router.rules
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


def as_dict(record: Record) -> dict[str, Any]:
    """Returns a record's fields by name."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def policy_version(policy: Record) -> str:
    """Returns a digest of a policy's limits: the same limits, the same version."""
    if not dataclasses.is_dataclass(policy):
        raise InvalidTableError("a policy must be a frozen dataclass")
    canonical = orjson.dumps(as_dict(policy), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(type(policy).__name__.encode() + canonical).hexdigest()[:12]
