"""Values that people write as JSON, as far as a message of the public API takes them.

What is wrong with one is said as `is no JSON object`.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value

from services.kit.wire.carried_json import DEEPEST, check_carried


class NotJson(ValueError):
    """A text that is no JSON."""


def json_value(text: str) -> Any:
    """Returns what a text holds as JSON. Raises NotJson, or ValueError for what no message takes."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError(f"is nested deeper than {DEEPEST} levels") from error
    except ValueError as error:
        raise NotJson(f"is not JSON: {error}") from error
    check_carried(value)
    return value


def json_struct(text: str) -> Struct:
    """Returns the object that a text holds as JSON. Raises ValueError."""
    value = json_value(text)
    if isinstance(value, dict):
        struct = Struct()
        struct.update(value)
        return struct
    raise ValueError("is no JSON object")


def answer_value(text: str) -> Value:
    """Returns what a graph is given as an answer: what is JSON as that, any other text as it is. Raises ValueError."""
    try:
        value = json_value(text)
    except NotJson:
        value = text.strip()
        check_carried(value)
    return json_format.ParseDict(value, Value())


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
