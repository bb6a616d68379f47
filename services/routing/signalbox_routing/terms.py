"""Conditions as data: expressions over the fields of two records, typed and checked when they are built.

`f, p = terms(AgentFacts), terms(DataChatPolicy)` gives a term for every field by its name; `f.iteration_count >=
p.max_iterations` is a condition. What a condition is for (to decide, to be printed, to be asked of a database) is
elsewhere: here is only what it says.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, get_type_hints

Value = bool | int | float | str
Operator = Literal["==", "!=", "<", "<=", ">", ">="]
MIRRORED: dict[Operator, Operator] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE: dict[Operator, Operator] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
IN_PYTHON: Mapping[Operator, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class InvalidTableError(ValueError):
    """A table that is not total, names a rule twice, or has a condition that makes no sense for its records."""


class TermKind(enum.Enum):
    """What values a term has."""

    FLAG = "a flag"
    INTEGER = "an integer"
    NUMBER = "a number"
    TEXT = "a text"

    @property
    def is_numeric(self) -> bool:
        """Whether its values have an order."""
        return self in (TermKind.INTEGER, TermKind.NUMBER)


_KINDS: dict[Any, TermKind] = {bool: TermKind.FLAG, int: TermKind.INTEGER, float: TermKind.NUMBER, str: TermKind.TEXT}


class Condition:
    """What must hold for a rule to fire; `&`, `|` and `~` put conditions together."""

    def __and__(self, other: Condition) -> Condition:
        return AllOf((*_parts_of(AllOf, self), *_parts_of(AllOf, other)))

    def __or__(self, other: Condition) -> Condition:
        return AnyOf((*_parts_of(AnyOf, self), *_parts_of(AnyOf, other)))

    def __invert__(self) -> Condition:
        checked = condition(self)
        if isinstance(checked, Comparison):
            return Comparison(checked.term, OPPOSITE[checked.operator], checked.other)
        return checked.part if isinstance(checked, Not) else Not(checked)

    def __bool__(self) -> NoReturn:
        raise InvalidTableError(f"{self!r} is neither true nor false before it is decided: write &, | and ~")


class Always(Condition):
    """The condition of a table's last rule, which makes it total."""

    def __repr__(self) -> str:
        return "Always()"


@dataclass(frozen=True, eq=False)
class Term(Condition):
    """A field of a record; one that is a flag is a condition of its own."""

    record: type
    name: str
    kind: TermKind

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return _compare(self, "!=", other)

    def __lt__(self, other: object) -> Comparison:
        return _compare(self, "<", other)

    def __le__(self, other: object) -> Comparison:
        return _compare(self, "<=", other)

    def __gt__(self, other: object) -> Comparison:
        return _compare(self, ">", other)

    def __ge__(self, other: object) -> Comparison:
        return _compare(self, ">=", other)

    # `==` makes a condition, and can't tell the keys of a mapping apart: they are one object, or they are not.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.record.__name__}.{self.name}"

    @property
    def key(self) -> tuple[type, str]:
        """What makes it this term."""
        return self.record, self.name

    def is_in(self, values: Collection[Value]) -> OneOf:
        """Holds when the term has one of these values."""
        if not values:
            raise InvalidTableError(f"{self!r} can be none of no values")
        for value in values:
            _comparable(self, "==", value)
        return OneOf(self, tuple(values))


@dataclass(frozen=True, eq=False)
class Comparison(Condition):
    """A term held against another, or against a value."""

    term: Term
    operator: Operator
    other: Term | Value

    def __repr__(self) -> str:
        return f"{self.term!r} {self.operator} {self.other!r}"


@dataclass(frozen=True, eq=False)
class OneOf(Condition):
    """A term that has one of some values."""

    term: Term
    values: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"{self.term!r} in {self.values!r}"


@dataclass(frozen=True, eq=False)
class Not(Condition):
    """The opposite of a condition."""

    part: Condition

    def __repr__(self) -> str:
        return f"~({self.part!r})"


@dataclass(frozen=True, eq=False)
class AllOf(Condition):
    """Conditions that all have to hold; they are tried in order, up to the first that doesn't."""

    parts: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " & ".join(f"({part!r})" for part in self.parts)


@dataclass(frozen=True, eq=False)
class AnyOf(Condition):
    """Conditions of which one has to hold; they are tried in order, up to the first that does."""

    parts: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " | ".join(f"({part!r})" for part in self.parts)


ConditionT = TypeVar("ConditionT", AllOf, AnyOf)


class Terms:
    """The fields of a record as terms, by their names."""

    def __init__(self, record: type) -> None:
        if not dataclasses.is_dataclass(record):
            raise InvalidTableError(f"{record.__name__} is not a dataclass")
        self._record = record
        self._hints = get_type_hints(record)

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        record = self._record
        if name not in self._hints:
            known = ", ".join(self._hints)
            raise InvalidTableError(f"{record.__name__} has no field {name!r}; it has: {known}")
        if self._hints[name] not in _KINDS:
            raise InvalidTableError(
                f"{record.__name__}.{name} is not a flag, number or text, and so no rule can read it"
            )
        return Term(record, name, _KINDS[self._hints[name]])


def terms(record: type) -> Terms:
    """Returns a record's fields as terms. Raises InvalidTableError, as access to a field that is no term does."""
    return Terms(record)


def condition(thing: object) -> Condition:
    """Returns what is given if it is a condition. Raises InvalidTableError."""
    if isinstance(thing, Term) and thing.kind is not TermKind.FLAG:
        raise InvalidTableError(f"{thing!r} is {thing.kind.value}, no condition: compare it with something")
    if not isinstance(thing, Condition):
        raise InvalidTableError(f"{thing!r} is not a condition")
    return thing


def terms_of(tested: Condition) -> tuple[Term, ...]:
    """Returns the terms that a condition reads, each once, in the order in which they stand."""
    return tuple({term.key: term for term in _read_by(tested)}.values())


def comparisons_of(tested: Condition) -> Iterator[tuple[Term, Term | Value]]:
    """Yields every term with what it is held against; a flag is held against True."""
    for term, _, other in tests_of(tested):
        yield term, other


def tests_of(tested: Condition) -> Iterator[tuple[Term, Operator, Term | Value]]:
    """Yields every term with how it is held against what; two terms are held against each other, both ways."""
    match tested:
        case Comparison(term, compared, other):
            yield term, compared, other
            if isinstance(other, Term):
                yield other, MIRRORED[compared], term
        case OneOf(term, values):
            yield from ((term, "==", value) for value in values)
        case Not(part):
            yield from tests_of(part)
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from tests_of(part)
        case Term():
            yield tested, "==", True


def _read_by(tested: Condition) -> Iterator[Term]:
    for term, _ in comparisons_of(tested):
        yield term


def _parts_of(kind: type[ConditionT], given: object) -> tuple[Condition, ...]:
    checked = condition(given)
    return checked.parts if isinstance(checked, kind) else (checked,)


def _compare(term: Term, operator: Operator, other: object) -> Comparison:
    return Comparison(term, operator, _comparable(term, operator, other))


def _comparable(term: Term, operator: Operator, other: object) -> Term | Value:
    if not isinstance(other, Term | bool | int | float | str):
        raise InvalidTableError(f"{term!r} can't be compared with {other!r}, which is not a flag, number or text")
    kind = other.kind if isinstance(other, Term) else _kind_of(other)
    if kind is not term.kind and not (kind.is_numeric and term.kind.is_numeric):
        raise InvalidTableError(f"{term!r} is {term.kind.value} and can't be compared with {other!r}, {kind.value}")
    if operator not in ("==", "!=") and not kind.is_numeric:
        raise InvalidTableError(f"{term!r} is {term.kind.value}, and has no order: use == or !=")
    return other


def _kind_of(value: Value) -> TermKind:
    return next(kind for known, kind in _KINDS.items() if isinstance(value, known))
