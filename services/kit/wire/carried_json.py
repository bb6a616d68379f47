"""JSON as messages carry it: what would not arrive as it was given is refused."""

from __future__ import annotations

import sys
from typing import Any, Final

# An object in a message takes three of the hundred levels that protobuf reads; a few are around the value.
DEEPEST: Final = 28
# Whole numbers up to this are exact in a Struct, whose numbers are floats; beyond, some are not.
EXACT: Final = 2**53
_LARGEST: Final = sys.float_info.max


class NotCarriedError(ValueError):
    """A value that no message carries as it is; says what it has, as in "… has a number too large to be sent"."""


def check_carried(value: Any, depth: int = 0) -> None:
    """Raises NotCarriedError for a value of JSON that no message carries as it is."""
    if depth > DEEPEST:
        raise NotCarriedError(f"is nested deeper than {DEEPEST} levels")
    if isinstance(value, dict):
        for name, each in value.items():
            if not isinstance(name, str):
                raise NotCarriedError(f"has the name {name!r}, which is no text")
            check_carried(name, depth)
            check_carried(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            check_carried(each, depth + 1)
    elif wrong := _wrong_with(value):
        raise NotCarriedError(wrong)


def _wrong_with(value: Any) -> str:
    """Returns what is wrong with a text, a number, or what JSON does not have; empty where nothing is."""
    if isinstance(value, str):
        halved = not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
        return "is no text: it has half a pair of surrogates" if halved else ""
    if value is not None and not isinstance(value, (int, float)):
        return f"has {str(value)[:60]!r}, which JSON does not have"
    if value is not None and not -_LARGEST <= value <= _LARGEST:
        return "has a number too large to be sent"
    if isinstance(value, int) and abs(value) > EXACT:
        return f"has the whole number {value}, which would not arrive exactly; send it as text"
    return ""
