"""The serializer of checkpoints: only langgraph's list of safe types is ever revived, whatever the environment says."""

from __future__ import annotations

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def make_serde() -> JsonPlusSerializer:
    """Returns the serializer that every saver of the platform uses."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)
