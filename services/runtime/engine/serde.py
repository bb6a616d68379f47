"""The serializer of checkpoints: only langgraph's list of safe types is ever revived, whatever the environment says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer, _msgpack_default, _option
from langgraph.types import Send

BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})


class TypeNotAllowedError(TypeError):
    """A checkpoint holds a type that is not on the list; keep plain values and messages in state."""


class StrictSerializer(JsonPlusSerializer):
    """A serializer that raises where langgraph's would warn and go on with something else than was stored."""

    def __init__(self, allowed: Collection[tuple[str, str]] = ()) -> None:
        super().__init__(allowed_msgpack_modules=tuple(allowed) or None)
        self._is_checked = bool(allowed)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Returns the value as it is stored. Raises TypeNotAllowedError for what could not be read again.

        Where graphs bring types of their own, what holds any is read at once: a run would find out when it is resumed.
        """
        if not self._is_checked or obj is None or isinstance(obj, bytes | bytearray):
            return super().dumps_typed(obj)
        found: set[type] = set()

        def default(value: Any) -> Any:
            if not isinstance(value, BaseMessage | Send):
                found.add(type(value))
            return _msgpack_default(value)

        try:
            written = "msgpack", ormsgpack.packb(obj, default=default, option=_option)
        except ormsgpack.MsgpackEncodeError as error:
            raise TypeNotAllowedError(f"the state holds what can't be stored: {error}") from error
        if found:
            self.loads_typed(written)
        return written

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Returns the value. Raises TypeNotAllowedError."""
        blocked: list[SerdeEvent] = []
        unregister = register_serde_event_listener(lambda event: _note(event, blocked))
        try:
            value = super().loads_typed(data)
        finally:
            unregister()
        if blocked:
            raise TypeNotAllowedError(f"checkpoints may not hold {blocked[0]['module']}.{blocked[0]['name']}")
        return value


def mark_of(item: Any) -> Any:
    """Returns a mark of what an item holds, by which its state is told from one that it had before."""
    try:
        return hash(ormsgpack.packb(item, default=_msgpack_default, option=_option))
    except (TypeError, ValueError, ormsgpack.MsgpackEncodeError):
        # What can't be stored is like nothing; whoever stores it says so.
        return object()


def _note(event: SerdeEvent, blocked: list[SerdeEvent]) -> None:
    if event["kind"] in BLOCKED:
        blocked.append(event)


def make_serde(allowed: Collection[tuple[str, str]] = ()) -> JsonPlusSerializer:
    """Returns the serializer that every saver of the platform uses; `allowed` are types by module and name."""
    return StrictSerializer(allowed)
