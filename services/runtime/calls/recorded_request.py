"""What models and services are asked, as a recording keeps it: bounded, and without what authorises it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import tools_pb2

# Of a request to a model, what it is about; its name is a setting.
ASKED_OF_MODEL = ("messages", "tools", "tool_choice", "response_format")
MOST_REQUEST_BYTES = 64 * 1024
_SHORTEST_TEXT = 32
# Of nested values, so that whoever reads the message can.
_DEEPEST = 24
# Up to here a number is the same on the wire.
_LARGEST = 2**53
_Values = Mapping[str, Any]


def values_for_model(payload: Mapping[str, Any]) -> _Values:
    """Returns what a model is asked."""
    return {name: payload[name] for name in ASKED_OF_MODEL if payload.get(name) is not None}


def values_for_service(request: Message) -> _Values:
    """Returns what a service is asked: of a tool's call its arguments; nothing of the keys of calls."""
    if isinstance(request, tools_pb2.LookUpCallRequest):
        return {}
    asked = request.arguments if isinstance(request, tools_pb2.CallToolRequest) else request
    try:
        values: _Values = MessageToDict(asked, preserving_proto_field_name=True)
    except (ValueError, RecursionError):
        return {}
    return values


def kept_request(values: _Values, most_bytes: int) -> tuple[Struct | None, int]:
    """Returns a request of at most so many bytes, and of one that is cut or not kept how many bytes it had.

    A long text is cut, and says how much is missing; a long list keeps its first entry and its last ones.
    """
    whole = _struct(values)
    size = whole.ByteSize()
    if size <= most_bytes:
        return whole, 0
    longest = MOST_REQUEST_BYTES if most_bytes > 0 else 0
    while longest > _SHORTEST_TEXT:
        longest //= 2
        cut = _struct(values, longest)
        if cut.ByteSize() <= most_bytes:
            return cut, size
    return None, size


def _struct(values: _Values, longest: int | None = None) -> Struct:
    made = Struct()
    made.update(_cut(values, longest, _DEEPEST))
    return made


def _cut(value: Any, longest: int | None, levels: int) -> Any:
    """Returns a value as the contract carries it: no half characters, no odd numbers, nothing nested too deep."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if -_LARGEST <= value <= _LARGEST else str(value)
    if isinstance(value, Mapping | list | tuple) and not levels:
        return "…"
    if isinstance(value, Mapping):
        return {_whole(str(name)): _cut(each, longest, levels - 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        most = len(value) if longest is None else max(2, longest // _SHORTEST_TEXT)
        kept = value if len(value) <= most else [value[0], *value[1 - most :]]
        return [_cut(each, longest, levels - 1) for each in kept]
    text = _whole(str(value))
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest:,} more characters)"


def _whole(text: str) -> str:
    return text.encode(errors="replace").decode()
