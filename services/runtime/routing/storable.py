"""What can be stored: in the ledger as JSON of Postgres, in checkpoints as MessagePack, in a run's row as text.

A step that can't be stored fails where a decision can still say so, and not when it is too late for one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from signalbox_routing.table import Decision

from services.runtime.errors import NotStorable

LONGEST_MESSAGE = 2000
# JSON's escape of a NUL, which Postgres takes in no text; not a backslash that is written out.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Readers of JSON make a number a double, which has whole numbers up to here.
_MOST_EXACT = 2**53
_LONGEST_NUMBER = 1024
_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


def check_decision(decision: Decision) -> None:
    """Checks that a decision can go into the ledger. Raises NotStorable."""
    record = [decision.facts, decision.grounds, [tried.grounds for tried in decision.rejected]]
    try:
        written = orjson.dumps(record, default=str)
    except TypeError as error:
        raise NotStorable(f"the facts of a decision can't be stored: {error}") from error
    if has_nul(written):
        raise NotStorable("the facts of a decision can't be stored: they hold a NUL")


def has_nul(written: bytes) -> bool:
    """Whether JSON has a NUL in a text, which JSON of Postgres does not take."""
    return _NUL.search(written) is not None


def check_state(update: Mapping[str, Any]) -> None:
    """Checks that a change of state can go into a checkpoint. Raises NotStorable."""
    try:
        _SERDE.dumps_typed(update)
    except (TypeError, ValueError) as error:
        raise NotStorable(f"what the node changed can't be stored: {error}") from error


def presentable(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Returns text for a person and a column of text: no control characters, no halves of pairs, not too long."""
    clean = text if text.isprintable() else _UNPRINTABLE.sub(" ", text)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def presentable_parts(value: Any, longest: int = LONGEST_MESSAGE) -> Any:
    """Returns JSON whose texts are presentable, names included; numbers that others would read otherwise are text."""
    if isinstance(value, str):
        return presentable(value, longest)
    if isinstance(value, Mapping):
        return {presentable(str(name), longest): presentable_parts(part, longest) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [presentable_parts(part, longest) for part in value]
    if isinstance(value, int) and abs(value) > _MOST_EXACT:
        # Python itself refuses to write very long ones.
        return str(value) if value.bit_length() <= _LONGEST_NUMBER else f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
