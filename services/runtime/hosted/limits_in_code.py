"""Limits of tables that stand in a graph's code, as part of an agent's policy: operators set them, runs are pinned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from signalbox_routing.facts import Record, as_dict
from signalbox_routing.table import Router
from signalbox_routing.terms import InvalidTableError

PolicyT = TypeVar("PolicyT")
_SETTABLE = (bool, int, float, str)


def merged_policy(own: type[PolicyT], tables: Mapping[str, Router[Any, Any]]) -> type[PolicyT]:
    """Returns a policy with the limits of these tables, each as it is in the code. Raises InvalidTableError."""
    records: dict[type, Record] = {}
    for name, table in tables.items():
        kind = type(table.policy)
        if any(rule.then for rule in table.rules):
            raise InvalidTableError(f"{name} changes state, as no edge can: return its `command(state)` from a node")
        if records.setdefault(kind, table.policy) != table.policy:
            raise InvalidTableError(f"{name} has other values of {kind.__name__} than another table: a limit has one")
        if strange := [each for each, hint in get_type_hints(kind).items() if hint not in _SETTABLE]:
            raise InvalidTableError(f"{kind.__name__}.{strange[0]} is no limit: these are flags, numbers and texts")
    records = {kind: record for kind, record in records.items() if as_dict(record)}
    if not records:
        return own
    taken = {each.name: own.__name__ for each in dataclasses.fields(own)}  # type: ignore[arg-type]
    for kind, record in records.items():
        for each in as_dict(record):
            if each in taken:
                raise InvalidTableError(f"{kind.__name__}.{each} has the name of a limit of {taken[each]}")
            taken[each] = kind.__name__
    made: type[PolicyT] = _made(own.__name__, (*records, own), list(records.values()))
    return made


def together(*records: Record) -> Record:
    """Returns one record of several, with the values that they have."""
    kinds = tuple(dict.fromkeys(type(each) for each in records))
    made: Record = _made(kinds[0].__name__, kinds, records)()
    return made


def _made(name: str, kinds: tuple[type, ...], records: Any) -> Any:
    hints = {each: hint for kind in kinds for each, hint in get_type_hints(kind, include_extras=True).items()}
    values = {each: value for record in records for each, value in as_dict(record).items()}
    namespace = {"__annotations__": {each: hints[each] for each in values}, "__doc__": kinds[0].__doc__, **values}
    try:
        return dataclasses.dataclass(frozen=True)(type(name, kinds, namespace))
    except TypeError as error:
        told = ", ".join(kind.__name__ for kind in kinds)
        raise InvalidTableError(f"limits are fields of frozen dataclasses without slots: {told}: {error}") from error
