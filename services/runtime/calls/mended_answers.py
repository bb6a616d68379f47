"""What makes something of every answer that a model may give: an answer that is not of the API's form, mended.

Models say things that the API does not foresee: arguments that are JSON but no object, tool calls without an id or
with one id for two calls, half of a surrogate pair, numbers of four hundred digits. langchain-openai raises on the
first, and neither a checkpoint nor a message can hold the last two.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any
from uuid import uuid4

from services.kit.models.reasoning import without_reasoning

# It is a part of the key by which executors know a call again.
LONGEST_CALL_ID = 128
# Far less than a checkpoint's packing goes down to, and than Protobuf does.
MOST_NESTED = 30
# NaN, infinities, more digits than 64 bits hold, exponents that may be beyond a double.
_ODD_NUMBER = re.compile(r"NaN|Infinity|\d{18}|\d[eE]\+?\d{3}")


def mend(answer: dict[str, Any]) -> None:
    """Mends an answer in place, and takes reasoning out of it.

    Raises ValueError and the like for one that is not of the API's form.
    """
    choice = answer["choices"][0]
    if not isinstance(choice.get("finish_reason"), str):
        choice["finish_reason"] = None
    message = choice["message"]
    message["role"] = "assistant"  # an answer is nobody else's, whatever some endpoints call it
    message["content"] = without_reasoning(well_formed(message.get("content") or ""))
    taken: set[str] = set()
    for call in message.get("tool_calls") or ():
        if call.get("type", "function") != "function":
            raise ValueError(f"a tool call of the type {call['type']!r}")
        call["type"] = "function"
        function = call["function"]
        function["name"] = well_formed(function.get("name") or "")
        function["arguments"] = mended_arguments(function.get("arguments") or "")
        if not call.get("id") or call["id"] in taken or len(call["id"]) > LONGEST_CALL_ID:
            call["id"] = f"call_{uuid4().hex}"
        taken.add(call["id"])


def mended_arguments(text: str) -> str:
    """Returns a JSON object with well-formed strings, or text that is not JSON and so will be told to the model."""
    plain = "\\u" not in text and not _ODD_NUMBER.search(text)
    if not text.strip():
        return well_formed(text)
    try:
        hooks: dict[str, Any] = {} if plain else {"parse_int": _held, "parse_float": _held, "parse_constant": _held}
        value = json.loads(text, object_pairs_hook=each_key_once, **hooks)
    except OverflowError:
        return f"a number that no tool takes: {well_formed(text)}"
    except KeyTwice as error:
        return f"{error}: {well_formed(text)}"
    except (ValueError, RecursionError):
        return well_formed(text)
    if not isinstance(value, dict):
        return f"not an object: {well_formed(text)}"
    if text.count("[") + text.count("{") > MOST_NESTED and _nested_deeper(value, MOST_NESTED):
        return f"nested more than {MOST_NESTED} deep: {well_formed(text)}"
    return well_formed(text if plain else json.dumps(value, ensure_ascii=False))


def _nested_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
    return any(isinstance(part, dict | list) for part in level)


class KeyTwice(ValueError):
    """A JSON object names a key twice, and so says two things."""


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a JSON object of its pairs. Raises KeyTwice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise KeyTwice("a key stands in it twice")
    return found


def _held(text: str) -> int | float:
    """Returns a number that checkpoints and messages can hold. Raises OverflowError for any other."""
    value = float(text)
    if not math.isfinite(value) or (text.lstrip("-").isdecimal() and abs(value) >= 2**63):
        raise OverflowError(text[:40])
    return int(text) if text.lstrip("-").isdecimal() else value


def well_formed(text: str) -> str:
    """Returns the text with a question mark for each half of a surrogate pair, which UTF-8 can't carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
