"""What a path function read of its state: the fields, and of their values what a ledger may keep, never whole texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import cache
from itertools import islice
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from services.runtime.routing.storable import presentable, presentable_parts

LONGEST_TEXT: Final = 80
LONGEST_NUMBER: Final = 20
MOST_FIELDS: Final = 20
# Of all the facts of one decision.
MOST_CHARACTERS: Final = 16_000
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
    """Returns what was read, bounded: at most 20 fields, which share what a decision may keep."""
    fields = list(reads.items())[:MOST_FIELDS]
    facts = {name[:LONGEST_TEXT]: _Telling(MOST_CHARACTERS // len(fields)).told(value) for name, value in fields}
    return dict(presentable_parts(facts, LONGEST_TEXT))


@dataclasses.dataclass
class _Telling:
    """Tells of one value what a ledger keeps, as long as there are characters left for it; then types alone."""

    left: int

    def told(self, value: Any) -> Any:
        try:
            return self._bounded(value)
        except Exception:  # noqa: BLE001 - a value's own code, and no reason for the run to fail
            return type(value).__name__

    def _bounded(self, value: Any, depth: int = 0) -> Any:
        """Returns numbers, flags and short texts whole, all else by what it is like."""
        if isinstance(value, Enum):
            return self._bounded(value.value, depth)
        if isinstance(value, str):
            return self._spent(value) if len(value) <= LONGEST_TEXT else {"length": len(value)}
        if value is None or isinstance(value, bool | int | float):
            self.left -= LONGEST_NUMBER
            return value
        if isinstance(value, BaseMessage):
            return self._message(value)
        is_told = depth < _DEEPEST and self.left > 0
        return self._composite(value, depth) if is_told else self._spent(type(value).__name__)

    def _composite(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._parts(((str(key), part) for key, part in value.items()), depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return {"count": len(value), **({"last": self._bounded(value[-1], depth + 1)} if value else {})}
        if fields := _fields_of(type(value)):
            return self._parts(((name, getattr(value, name, None)) for name in sorted(fields)), depth)
        if isinstance(value, set | frozenset | bytes | bytearray):
            return {"count": len(value)}
        return self._spent(type(value).__name__)

    def _parts(self, parts: Iterable[tuple[str, Any]], depth: int) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for name, part in islice(parts, MOST_FIELDS):
            if self.left <= 0:
                break
            told[self._spent(name[:LONGEST_TEXT])] = self._bounded(part, depth + 1)
        return told

    def _message(self, message: BaseMessage) -> dict[str, Any]:
        told: dict[str, Any] = {"type": self._spent(message.type), "length": len(message.text)}
        if isinstance(message, AIMessage):
            told["tools"] = [self._spent(call["name"][:LONGEST_TEXT]) for call in message.tool_calls[:MOST_FIELDS]]
        return told

    def _spent(self, text: str) -> str:
        self.left -= len(text)
        return text


def choice_of_model(reads: Mapping[str, Any]) -> str:
    """Returns what a model chose of what was read, in words; empty where no answer of a model is the last message."""
    for value in reads.values():
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, AIMessage):
            names = ", ".join(dict.fromkeys(call["name"][:LONGEST_TEXT] for call in last.tool_calls[:MOST_FIELDS]))
            return f"the model asked for {presentable(names)}" if names else "the model asked for no tool"
    return ""
