"""What a node may change, of the facts that routers read: declared beside the node, and held to when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from signalbox_routing.compiled import Records, test
from signalbox_routing.terms import Condition, InvalidTableError, Term, TermKind, Value, terms_of


@dataclass(frozen=True)
class Effect:
    """A change of one fact: to one of some values, up by some number, or, with neither, to anything.

    One that `may` be leaves the fact as it is otherwise.
    """

    fact: str
    values: tuple[Value, ...] = ()
    by: tuple[int, int | None] | None = None
    may: bool = False

    def allows(self, before: Any, after: Any) -> bool:
        """Says whether it can have made the one value of the other."""
        if self.may and after == before:
            return True
        if self.by is not None:
            least, most = self.by
            return after - before >= least and (most is None or after - before <= most)
        return not self.values or after in self.values


def sets(fact: Term, *values: Value) -> Effect:
    """The fact becomes this, or one of these."""
    return Effect(fact.name, tuple(_checked(fact, value) for value in values))


def may_set(fact: Term, *values: Value) -> Effect:
    """The fact becomes this, or one of these, or stays."""
    return Effect(fact.name, tuple(_checked(fact, value) for value in values), may=True)


def changes(fact: Term) -> Effect:
    """The fact can be anything afterwards."""
    return Effect(fact.name)


def raises(fact: Term, *, least: int = 1, most: int | None = 1) -> Effect:
    """The fact rises by one, or by something from `least` to `most`; `most` None is without a bound."""
    if fact.kind is not TermKind.INTEGER:
        raise InvalidTableError(f"{fact!r} is {fact.kind.value}, and does not rise by a number")
    if least < 0:
        raise InvalidTableError(
            f"{fact!r} is said to rise by {least}: what can fall is no count; say that it `changes`"
        )
    return Effect(fact.name, by=(least, most))


def _checked(fact: Term, value: Value) -> Value:
    fact.is_in((value,))  # raises, in words, where the two are not of one kind
    return value


@dataclass(frozen=True)
class Outcome:
    """A way for a node to end: what it changes; all other facts stay as they are.

    `led_by` are the rules of which one has led to the node, and `when` is what holds before it, where either matters.
    """

    name: str
    effects: tuple[Effect, ...] = ()
    led_by: tuple[str, ...] = ()
    when: Condition | None = None

    def can_be(self, before: Mapping[str, Any], led_by: str) -> bool:
        """Says whether a node can end so, with these facts before it and this rule that led to it."""
        if self.led_by and led_by not in self.led_by:
            return False
        return self.when is None or _holds(self.when)(SimpleNamespace(**before), None)

    def allows(self, before: Mapping[str, Any], after: Mapping[str, Any], led_by: str) -> bool:
        """Says whether these are facts before and after it."""
        if not self.can_be(before, led_by):
            return False
        declared = {effect.fact: effect for effect in self.effects}
        return all(
            declared[name].allows(before[name], value) if name in declared else value == before[name]
            for name, value in after.items()
        )


@lru_cache
def _holds(when: Condition) -> Callable[[Any, Any], bool]:
    records = {term.record for term in terms_of(when)}
    if len(records) != 1:
        raise InvalidTableError(f"{when!r} is not about one record of facts")
    return test(when, Records(records.pop(), type(None)))


@dataclass(frozen=True)
class Cost:
    """The calls of one visit to a node at most; None is as many as a model asks for.

    `first_tool_calls` are what a run's first visit makes beyond them. Retries of a call that failed are not counted.
    """

    model_calls: int | None = 0
    tool_calls: int | None = 0
    first_tool_calls: int = 0


FREE = Cost()


def incompatible(outcomes: Iterable[Outcome], before: Mapping[str, Any], after: Mapping[str, Any], led_by: str) -> str:
    """Returns in words what no declared outcome allows; an empty string where one allows it."""
    known = list(outcomes)
    if any(outcome.allows(before, after, led_by) for outcome in known):
        return ""
    changed = {name: value for name, value in after.items() if value != before[name]}
    said = ", ".join(f"{name} from {before[name]!r} to {value!r}" for name, value in changed.items())
    declared = ", ".join(outcome.name for outcome in known)
    return f"it changed {said or 'nothing'}, which none of its outcomes allows: {declared}"
