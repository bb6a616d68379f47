"""What a table knows of a state: a record of plain values, and how each is read."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, Protocol, get_type_hints

from signalbox_routing.terms import Condition, InvalidTableError, Term, comparisons_of

READ: Final = "signalbox_routing.read"
LONGEST_TEXT: Final = 80
# Readers of JSON make a number a double, which has whole numbers up to here.
_MOST: Final = 2**53
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Record(Protocol):
    """A frozen dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def as_dict(record: Record) -> dict[str, Any]:
    """Returns a record's fields by name."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def fact(read: Callable[[Any], Any]) -> Any:
    """Returns a field of a record of facts that is read from the state by a function.

    `calls: int = fact(lambda state: len(state["calls"]))`. A flag is whether the value counts as true.
    """
    return dataclasses.field(metadata={READ: read})


class Facts:
    """How a table's facts are read from a state."""

    def __init__(self, given: Callable[[Any], Any] | type, conditions: Iterable[Condition]) -> None:
        self._given = given
        self._kept: dict[str, Callable[[Any], Any]] = {}
        if not isinstance(given, type):
            return
        hints, held_against = get_type_hints(given), _held_against(given, conditions)
        self._readers: dict[str, Callable[[Any], Any]] = {}
        for each in dataclasses.fields(given):
            if READ not in each.metadata:
                raise InvalidTableError(f"{given.__name__}.{each.name} does not say how it is read: `fact(...)`")
            kind, read = hints[each.name], each.metadata[READ]
            self._readers[each.name] = partial(_as_flag, read) if kind is bool else read
            self._kept[each.name] = partial(_KEPT[kind], held_against.get(each.name, []))

    def asked(self, state: Any) -> Any:
        """Returns the facts of a state, each read when a rule asks for it, and raising then what that raises."""
        return _Asked(self._readers, state) if isinstance(self._given, type) else self._given(state)

    def kept(self, asked: Any) -> Any:
        """Returns facts as the record of them; what is no value of its type there is one that no rule asks for."""
        if not isinstance(self._given, type):
            return asked
        return self._given(**{name: keep(_read(asked, name)) for name, keep in self._kept.items()})


class _Asked:
    """Facts of one state that are read once each."""

    def __init__(self, readers: Mapping[str, Callable[[Any], Any]], state: Any) -> None:
        self.__readers, self.__state = readers, state

    def __getattr__(self, name: str) -> Any:
        value = self.__readers[name](self.__state)
        setattr(self, name, value)
        return value


def _as_flag(read: Callable[[Any], Any], state: Any) -> bool:
    return bool(read(state))


def _read(asked: Any, name: str) -> Any:
    try:
        return getattr(asked, name)
    except Exception:  # noqa: BLE001 - a rule that asks for it raises it
        return None


def _held_against(facts: type, conditions: Iterable[Condition]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for term, other in (each for condition in conditions for each in comparisons_of(condition)):
        if term.record is facts and not isinstance(other, Term):
            found.setdefault(term.name, []).append(other)
    return found


def _flag(_: list[Any], value: Any) -> bool:
    return value is True


def _number(against: list[Any], value: Any) -> int | float:
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < _MOST:
        return int(value) if isinstance(value, bool) else value
    return 0 if 0 not in against else min(against) - 1


def _whole(against: list[Any], value: Any) -> int:
    number = _number(against, value)
    return number if isinstance(number, int) else math.floor(number)


def _text(against: list[Any], value: Any) -> str:
    if not isinstance(value, str):
        return "" if "" not in against else "(nothing)"
    text = str(value)
    if text in against or (len(text) <= LONGEST_TEXT and not _UNPRINTABLE.search(text)):
        return text
    return f"({len(text)} characters)"


_KEPT: Final[Mapping[Any, Callable[[list[Any], Any], Any]]] = {bool: _flag, int: _whole, float: _number, str: _text}
