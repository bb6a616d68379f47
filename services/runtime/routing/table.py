"""Routers as data: an ordered table of named rules over (facts, policy); the first rule that holds wins."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, get_type_hints

import orjson

from services.runtime.routing.grounds import Witness

END: Final = "__end__"
State = Mapping[str, Any]
StateUpdate = dict[str, Any]


class Record(Protocol):
    """A frozen dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


FactsT = TypeVar("FactsT", bound=Record)
PolicyT = TypeVar("PolicyT", bound=Record)


def always(_facts: object, _policy: object) -> bool:
    """The predicate of the last rule, which makes a table total."""
    return True


@dataclass(frozen=True)
class Choice(Generic[FactsT]):
    """Several destinations of one rule: `pick` names one of `among`, from the facts alone."""

    among: tuple[str, ...]
    pick: Callable[[FactsT], str]


@dataclass(frozen=True)
class Rule(Generic[FactsT, PolicyT]):
    """A named rule: where to go when its predicate holds, and what that changes in state.

    Predicates are pure: no I/O, clock, randomness or model. The update is given the rule's name, and lands in the same
    superstep as the decision.
    """

    name: str
    to: str | Choice[FactsT]
    when: Callable[[FactsT, PolicyT], bool]
    update: Callable[[str], StateUpdate] | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where the rule can lead."""
        return self.to.among if isinstance(self.to, Choice) else (self.to,)

    def destination(self, facts: FactsT) -> str:
        """Returns where the rule leads on these facts. Raises InvalidTableError when it picks none of its own."""
        if not isinstance(self.to, Choice):
            return self.to
        picked = self.to.pick(facts)
        if picked not in self.to.among:
            raise InvalidTableError(f"{self.name}: {picked!r} is none of {', '.join(self.to.among)}")
        return picked


@dataclass(frozen=True)
class Tried:
    """A rule that was tried, and the facts and limits it read."""

    rule: str
    grounds: dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What a table decided and why."""

    rule: str
    destination: str
    update: StateUpdate
    grounds: dict[str, Any]
    rejected: tuple[Tried, ...]
    facts: dict[str, Any]


class InvalidTableError(ValueError):
    """A table that is not total, names a rule twice, or has a rule that leads where it does not say."""


class Router(Generic[FactsT, PolicyT]):
    """A decision table with the facts it takes from state and the policy it holds them against."""

    def __init__(
        self,
        name: str,
        *,
        facts: Callable[[State], FactsT],
        policy: PolicyT,
        rules: Sequence[Rule[FactsT, PolicyT]],
    ) -> None:
        names = [rule.name for rule in rules]
        if not rules or rules[-1].when is not always:
            raise InvalidTableError(f"{name}: the last rule must always hold")
        if len(set(names)) != len(names) or any(rule.when is always for rule in rules[:-1]):
            raise InvalidTableError(f"{name}: a rule is named twice or hides the ones after it")
        self.name = name
        self.rules = tuple(rules)
        self.policy = policy
        self.policy_version = policy_version(policy)
        self._facts = facts

    @property
    def facts_type(self) -> type[FactsT]:
        """The record of facts, as the function that takes them from state declares it."""
        declared: type[FactsT] = get_type_hints(self._facts)["return"]
        return declared

    @property
    def destinations(self) -> dict[str, list[str]]:
        """Rule names by the destination they lead to, in table order."""
        found: dict[str, list[str]] = {}
        for rule in self.rules:
            for destination in rule.destinations:
                found.setdefault(destination, []).append(rule.name)
        return found

    def decide(self, state: State) -> Verdict:
        """Tries the rules in order on facts taken from state."""
        return self.decide_on(self._facts(state))

    def decide_on(self, facts: FactsT, policy: PolicyT | None = None) -> Verdict:
        """Tries the rules in order on facts already taken, under this policy or another."""
        rejected: list[Tried] = []
        for rule in self.rules:
            witness = Witness()
            watched = witness.watch(facts)
            if rule.when(watched, witness.watch(policy or self.policy)):
                destination = rule.destination(watched)
                update = rule.update(rule.name) if rule.update else {}
                return Verdict(rule.name, destination, update, witness.read, tuple(rejected), as_dict(facts))
            rejected.append(Tried(rule.name, witness.read))
        raise AssertionError("a total table always decides")


def as_dict(record: Record) -> dict[str, Any]:
    """Returns a record's fields by name."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def policy_version(policy: Record) -> str:
    """Returns a digest of a policy's limits: the same limits, the same version."""
    if not dataclasses.is_dataclass(policy):
        raise InvalidTableError("a policy must be a frozen dataclass")
    canonical = orjson.dumps(as_dict(policy), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(type(policy).__name__.encode() + canonical).hexdigest()[:12]
