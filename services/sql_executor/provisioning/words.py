"""What tables and columns are called in plain English: their names taken apart, one of them and several."""

from __future__ import annotations

import re

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_IRREGULAR = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_SINGULAR = {many: one for one, many in _IRREGULAR.items()}


def spoken(name: str) -> str:
    """Returns the words of a name: `unit_price` and `UnitPrice` are `unit price`."""
    return " ".join(part.lower() for part in _PART.findall(name)) or name.lower()


def one_of(words: str) -> str:
    """Returns what one of several is called."""
    first, space, last = words.rpartition(" ")
    return first + space + _singular(last)


def several(words: str) -> str:
    """Returns what several are called, of what one is."""
    first, space, last = words.rpartition(" ")
    return first + space + _plural(last)


def one(words: str) -> str:
    """Returns words with their article: `an order`."""
    return f"{'an' if words[:1] in 'aeiou' else 'a'} {words}"


def _singular(word: str) -> str:
    if word in _SINGULAR:
        return _SINGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _plural(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "sh", "ch")) else "s")
