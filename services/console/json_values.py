"""Values that people write as JSON, as far as a message of the public API takes them."""

from __future__ import annotations

import json
import sys
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value

# An object in a message takes three of the hundred levels that protobuf reads; a few are around the value.
DEEPEST = 28
_LARGEST = sys.float_info.max


class NotJson(ValueError):
    """A text that is no JSON."""


def json_value(text: str) -> Any:
    """Returns what a text holds as JSON. Raises NotJson, or ValueError for what no message takes."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from error
    except ValueError as error:
        raise NotJson(f"not JSON: {error}") from error
    _check(value, 0)
    return value


def json_struct(text: str) -> Struct:
    """Returns the object that a text holds as JSON. Raises ValueError."""
    value = json_value(text)
    if isinstance(value, dict):
        struct = Struct()
        struct.update(value)
        return struct
    raise ValueError("no JSON object")


def answer_value(text: str) -> Value:
    """Returns what a graph is given as an answer: what is JSON as that, any other text as it is. Raises ValueError."""
    try:
        value = json_value(text)
    except NotJson:
        value = text.strip()
        _check(value, 0)
    return json_format.ParseDict(value, Value())


def _check(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    if isinstance(value, dict):
        for name, each in value.items():
            _check(name, depth)
            _check(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("no text: it has half a pair of surrogates")
    elif isinstance(value, (int, float)) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("a number too large to be sent")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
