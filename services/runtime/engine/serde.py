"""The serializer of checkpoints: only langgraph's list of safe types is ever revived, whatever the environment says."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})


class TypeNotAllowedError(TypeError):
    """A checkpoint holds a type that is not on the list; keep plain values and messages in state."""


class StrictSerializer(JsonPlusSerializer):
    """A serializer that raises where langgraph's would warn and go on with something else than was stored."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

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


def _note(event: SerdeEvent, blocked: list[SerdeEvent]) -> None:
    if event["kind"] in BLOCKED:
        blocked.append(event)


def make_serde() -> JsonPlusSerializer:
    """Returns the serializer that every saver of the platform uses."""
    return StrictSerializer()
