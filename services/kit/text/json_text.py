"""Values as JSON for people to read and programs to take: what would steer a reader stands there as an escape."""

from __future__ import annotations

import json
import unicodedata

_KEPT = "\n"
_INVISIBLE = frozenset(("Cc", "Cf"))
# Up to here a number with a fraction of nothing is the whole number that it came from.
_EXACT = 2**53


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Returns a value as JSON, names in order, whole numbers as such, and what is invisible escaped."""
    text = json.dumps(_whole(value), indent=indent, ensure_ascii=False, sort_keys=True)
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(each if each in _KEPT or not _steers(each) else json.dumps(each)[1:-1] for each in text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE


def _whole(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT else value
