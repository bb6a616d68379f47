"""What a path function read of its state: the fields, and of their values what a ledger may keep, never whole texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import cache
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from services.runtime.routing.storable import presentable, presentable_parts

LONGEST_TEXT: Final = 80
MOST_FIELDS: Final = 20
_DEEPEST: Final = 3
Reads = dict[str, Any]


class _ReadMapping(dict[Any, Any]):
    """A state that notes which of its fields are read."""

    reads: Reads

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        self.reads[str(key)] = value
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        value = super().get(key, default)
        self.reads[str(key)] = super().get(key)
        return value

    def __contains__(self, key: Any) -> bool:
        self.reads[str(key)] = super().get(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        self._read_all()
        return super().__iter__()

    def keys(self) -> Any:
        self._read_all()
        return super().keys()

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def _read_all(self) -> None:
        self.reads.update((str(key), value) for key, value in super().items())


def recorded(state: Any, reads: Reads) -> Any:
    """Returns a state equal to this one, of its type or a subtype of it, that notes in `reads` what is read of it."""
    if type(state) is dict:
        mapping = _ReadMapping(state)
        mapping.reads = reads
        return mapping
    kind: Any = type(state)
    fields = _fields_of(kind)
    if not fields:
        reads["state"] = state
        return state
    twin = copy(state)
    object.__setattr__(twin, "__class__", _recording_type(kind))
    _READS_OF[id(twin)] = reads
    return twin


def forget(state: Any) -> None:
    """Ends the notes of a state that `recorded` has returned."""
    _READS_OF.pop(id(state), None)


# By the identity of the state that is read, which lives as long as its path function runs.
_READS_OF: dict[int, Reads] = {}


def _fields_of(kind: type) -> frozenset[str]:
    if issubclass(kind, BaseModel):
        return frozenset(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return frozenset(field.name for field in dataclasses.fields(kind))
    return frozenset()


@cache
def _recording_type(kind: Any) -> Any:
    """Returns a subtype of the same layout whose instances note their fields that are read."""
    fields = _fields_of(kind)
    inherited: Any = kind.__getattribute__

    def read(self: Any, name: str) -> Any:
        value = inherited(self, name)
        if name in fields and (reads := _READS_OF.get(id(self))) is not None:
            reads[name] = value
        return value

    # Not by the class statement: a model's metaclass would build a schema, and run what the class has to say of that.
    made = type.__new__(type(kind), kind.__name__, (kind,), {"__slots__": (), "__getattribute__": read})
    made.__module__, made.__qualname__ = kind.__module__, kind.__qualname__
    return made


def facts_of(reads: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what was read, bounded: at most 20 fields."""
    facts = {name[:LONGEST_TEXT]: _told(value) for name, value in list(reads.items())[:MOST_FIELDS]}
    return dict(presentable_parts(facts, LONGEST_TEXT))


def _told(value: Any) -> Any:
    try:
        return _bounded(value)
    except Exception:  # noqa: BLE001 - a value's own code, and no reason for the run to fail
        return type(value).__name__


def _bounded(value: Any, depth: int = 0) -> Any:
    """Returns a value as a ledger keeps it: numbers, flags and short texts whole, all else by what it is like."""
    if isinstance(value, Enum):
        return _bounded(value.value, depth)
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else {"length": len(value)}
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, BaseMessage):
        return _message(value)
    return type(value).__name__ if depth >= _DEEPEST else _composite(value, depth)


def _composite(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key)[:LONGEST_TEXT]: _bounded(part, depth + 1) for key, part in list(value.items())[:MOST_FIELDS]}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return {"count": len(value), **({"last": _bounded(value[-1], depth + 1)} if value else {})}
    if fields := _fields_of(type(value)):
        named = sorted(fields)[:MOST_FIELDS]
        return {name: _bounded(getattr(value, name, None), depth + 1) for name in named}
    if isinstance(value, set | frozenset | bytes | bytearray):
        return {"count": len(value)}
    return type(value).__name__


def _message(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"type": message.type, "length": len(message.text)}
    if isinstance(message, AIMessage):
        told["tools"] = [call["name"][:LONGEST_TEXT] for call in message.tool_calls[:MOST_FIELDS]]
    return told


def choice_of_model(reads: Mapping[str, Any]) -> str:
    """Returns what a model chose of what was read, in words; empty where no answer of a model is the last message."""
    for value in reads.values():
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, AIMessage):
            names = ", ".join(dict.fromkeys(call["name"][:LONGEST_TEXT] for call in last.tool_calls[:MOST_FIELDS]))
            return f"the model asked for {presentable(names)}" if names else "the model asked for no tool"
    return ""
