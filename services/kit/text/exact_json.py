"""JSON as it is written: whole numbers to their last digit, how deep it is nested, and no name given twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

import orjson

# Of whole numbers beyond 64 bits, which have as many digits, the quick parser makes others.
_LONG: Final = re.compile(rb"[0-9]{19}")


def exact_json(text: bytes | str, *, unique: bool = False) -> Any:
    """Returns what a text holds as JSON. Raises ValueError, where names are to be `unique` for one given twice, too."""
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    # It takes no NaN, no half of a surrogate pair, and nothing that is too deep for the other.
    document = orjson.loads(content)
    if unique or _LONG.search(content):
        return json.loads(content, object_pairs_hook=_unique if unique else None)
    return document


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Tells whether lists and objects stand in one another more often, level by level: who walks down has a stack."""
    level = [value]
    for _ in range(levels):
        insides = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [part for inside in insides for part in inside]
    return any(isinstance(each, dict | list) for each in level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:60]!r} is given twice")
    return found
