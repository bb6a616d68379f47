"""What identifies a graph: its nodes, the type of its state, and the tables between the nodes; and what a policy.

Not what nodes do inside, nor the policies' limits: runs may go on under another prompt or limit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson
from signalbox_routing.facts import Record, as_dict
from signalbox_routing.table import Router

from services.runtime.routing.state import REPLACED

LENGTH = 12


def digest(parts: object) -> str:
    """Returns a digest of plain values: the same for the same values, in every process."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:LENGTH]


def policy_version(policy: Record) -> str:
    """Returns a digest of a policy's limits: the same limits, the same version."""
    canonical = orjson.dumps(as_dict(policy), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(type(policy).__name__.encode() + canonical).hexdigest()[:LENGTH]


def outline_of_router(router: Router[Any, Any]) -> list[Any]:
    """Returns a table's rules in order: name, destinations, and what each changes."""
    return [
        router.name,
        *([rule.name, rule.destinations, _plain(rule.update)] for rule in router.rules),
    ]


def _plain(update: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in update.items()}


def outline_of_type(hint: Any, inside: Sequence[Any] = ()) -> Any:
    """Returns a type in plain values: records by their fields, other classes by their names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [mark for mark in arguments[1:] if mark != REPLACED]  # which says that there is nothing to say
        outline = outline_of_type(arguments[0], inside)
        return [outline, *map(_name, marks)] if marks else outline
    if origin is Literal:
        return ["Literal", *map(repr, arguments)]
    if origin in (Union, types.UnionType):
        return ["Union", *(outline_of_type(each, inside) for each in arguments)]
    if origin is not None:
        return [_name(origin), *(outline_of_type(each, inside) for each in arguments)]
    if hint in inside or not isinstance(hint, type):
        return _name(hint)
    if hasattr(hint, "__required_keys__") or dataclasses.is_dataclass(hint):
        fields = get_type_hints(hint, include_extras=True)
        required = sorted(getattr(hint, "__required_keys__", ()))
        return {"required": required, **{name: outline_of_type(each, (*inside, hint)) for name, each in fields.items()}}
    return _name(hint)


def _name(thing: Any) -> str:
    """Returns a name that is the same in every process, as the `repr` of a function is not."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}" if named.__module__ != "builtins" else str(named.__qualname__)
