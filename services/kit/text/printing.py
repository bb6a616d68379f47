"""Text that came from elsewhere, made safe to print."""

from __future__ import annotations

import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t")
_INVISIBLE: Final = frozenset(("Cc", "Cf"))


def printable(text: str) -> str:
    """Returns text from a model, a database or a caller with control and direction characters shown, not obeyed."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in _KEPT or unicodedata.category(character) not in _INVISIBLE else _shown(character)
        for character in text
    )


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
