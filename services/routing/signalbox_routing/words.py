"""Conditions in words: what a rule asks for, and by how much it was missed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from signalbox_routing.compiled import FACTS, Records, test
from signalbox_routing.terms import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Not,
    OneOf,
    Operator,
    Term,
    Value,
    terms_of,
)

ALWAYS = "always"
_IS: dict[Operator, str] = {"==": "is", "!=": "is not"}
_NEEDS: dict[Operator, str] = {
    "==": "wants",
    "!=": "wants anything but",
    "<": "wants less than",
    "<=": "wants at most",
    ">": "wants more than",
}
_COUNT = "_count"
_compiled_part = lru_cache(maxsize=2048)(test)


def in_words(condition: Condition, policy: object = None) -> str:
    """Returns a condition as a person would say it; limits with their values where a policy is given."""
    match condition:
        case Term(name=name):
            return name
        case Comparison(term, operator, other):
            said = operator if term.kind.is_numeric else _IS[operator]
            return f"{_operand(term, policy)} {said} {_operand(other, policy)}"
        case OneOf(term, values):
            return f"{term.name} is {' or '.join(map(value_in_words, values))}"
        case Not(OneOf(term, values)):
            return f"{term.name} is neither {' nor '.join(map(value_in_words, values))}"
        case Not(part):
            return f"not {_grouped(part, policy)}"
        case AllOf(parts):
            return " and ".join(_grouped(part, policy) for part in parts)
        case AnyOf(parts):
            return " or ".join(_grouped(part, policy) for part in parts)
    return ALWAYS


@dataclass(frozen=True)
class Case:
    """Facts, and the policy that they are held against."""

    records: Records
    facts: object
    policy: object

    def value(self, operand: Term | Value) -> Any:
        """Returns the value of a term; a value is its own."""
        if not isinstance(operand, Term):
            return operand
        return getattr(self.facts if self.records.name_of(operand) == FACTS else self.policy, operand.name)

    def holds(self, condition: Condition) -> bool:
        """Says whether a condition holds."""
        return _compiled_part(condition, self.records)(self.facts, self.policy)

    def missed_by(self, condition: Condition) -> str:
        """Returns by how much a condition was missed, such as `2 of 3 iterations`; nothing where it holds.

        Of several parts, those that do not hold.
        """
        if self.holds(condition):
            return ""
        match condition:
            case AllOf(parts) | AnyOf(parts):
                return ", ".join(filter(None, map(self.missed_by, parts)))
            case Comparison(term, ">=", other):
                return _short_of(term.name, self.value(term), self.value(other))
            case Comparison(term, ">", Term() as other) if self.records.name_of(other) != FACTS:
                return _short_of(term.name, self.value(term), self.value(other))
            case Comparison(term, operator, other) if term.kind.is_numeric:
                return f"{self._as_it_is(term)}, {_NEEDS[operator]} {value_in_words(self.value(other))}"
        return ", ".join(map(self._as_it_is, terms_of(condition)))

    def used(self, condition: Condition) -> float | None:
        """Returns the part of a limit that is used, 0 to 1, where a condition holds a number against one; else None.

        Of several such parts the least where all have to hold, and the most where one has to.
        """
        match condition:
            case AllOf(parts) | AnyOf(parts):
                known = [part for part in map(self.used, parts) if part is not None]
                return (min(known) if isinstance(condition, AllOf) else max(known)) if known else None
            case Comparison(term, ">=" | ">", Term() as other) if self.records.name_of(other) != FACTS:
                return _share(self.value(term), self.value(other))
            case Comparison(term, "<=" | "<", Term() as other) if self.records.name_of(term) != FACTS:
                return _share(self.value(other), self.value(term))
        return None

    def _as_it_is(self, term: Term) -> str:
        return f"{term.name} is {value_in_words(self.value(term))}"


def _share(value: float, limit: float) -> float | None:
    return min(max(value / limit, 0.0), 1.0) if limit > 0 else None


def value_in_words(value: Any) -> str:
    """Returns a fact or limit: text in quotes, whole numbers without a fraction."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f'"{value}"' if value else "empty"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short_of(name: str, value: Any, limit: Any) -> str:
    """`2 of 3 iterations` for `iteration_count`; what is no plural goes before: `rejection streak 2 of 3`."""
    counted = f"{value_in_words(value)} of {value_in_words(limit)}"
    noun = (f"{name.removesuffix(_COUNT)}s" if name.endswith(_COUNT) else name).replace("_", " ")
    return f"{counted} {noun}" if noun.endswith("s") else f"{noun} {counted}"


def _operand(operand: Term | Value, policy: object) -> str:
    if not isinstance(operand, Term):
        return value_in_words(operand)
    if policy is None or not isinstance(policy, operand.record):
        return operand.name
    return f"{operand.name} ({value_in_words(getattr(policy, operand.name))})"


def _grouped(part: Condition, policy: object) -> str:
    said = in_words(part, policy)
    return f"({said})" if isinstance(part, AllOf | AnyOf) else said
