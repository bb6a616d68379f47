"""Regular expressions that let letters, digits and underscores through and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_DIGITS = frozenset("0123456789")
MAX_RANGE = 128


def only_words(pattern: object) -> str:
    """Returns `number` or `word` for a pattern whose full matches are made of digits, or of word characters; or ''."""
    if not isinstance(pattern, str):
        return ""
    try:
        chars = frozenset(_chars(_parser.parse(pattern)))
    except (re.error, _Anything, RecursionError, OverflowError):
        return ""
    if chars <= _DIGITS:
        return "number"
    return "word" if all(char == "_" or char.isalnum() for char in chars) else ""


class _Anything(Exception):
    """The pattern lets through more than can be listed."""


def _chars(parsed: Iterable[tuple[Any, Any]]) -> Iterable[str]:
    """Yields every character that a match may hold. Raises _Anything."""
    for code, argument in parsed:
        if code is codes.LITERAL:
            yield chr(argument)
        elif code is codes.IN:
            yield from _listed(argument)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from _chars(argument[2])
        elif code is codes.SUBPATTERN:
            yield from _chars(argument[3])
        elif code is codes.ATOMIC_GROUP:
            yield from _chars(argument)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _chars(branch)
        elif code is not codes.AT:
            raise _Anything


def _listed(parts: Iterable[tuple[Any, Any]]) -> Iterable[str]:
    for code, argument in parts:
        if code is codes.LITERAL:
            yield chr(argument)
        elif code is codes.RANGE and argument[1] - argument[0] < MAX_RANGE:
            yield from map(chr, range(argument[0], argument[1] + 1))
        elif code is codes.CATEGORY and argument is codes.CATEGORY_DIGIT:
            yield from _DIGITS
        elif code is codes.CATEGORY and argument is codes.CATEGORY_WORD:
            yield from "a_0"
        else:
            raise _Anything
