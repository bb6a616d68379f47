"""Sentences, quoted words and names of a goal."""

from __future__ import annotations

import re
from typing import Final

QUOTED: Final = r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”"
# A name as it is written: quoted, or a word that may have dots and dashes inside.
NAME: Final = rf"(?:{QUOTED}|[\w@#][\w.@:#/-]*[\w]|\w)"
_PIECE = re.compile(rf"(?:{QUOTED}|[^.!?;]|[.!?](?=\S))+[.!?;]*")
_OPENING = re.compile(
    r"^(?:(?:and|then|next|finally|lastly|first|second(?:ly)?|third(?:ly)?|after that|also|please|could you|can you|"
    r"i want to|i want you to|i'd like to|now)\b[\s,]*)+",
    re.IGNORECASE,
)
_JOINT = re.compile(
    r"(?:,\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?)(?=(?:create|add|update|set|change|delete|remove|connect|link)\b)",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Returns the orders and statements of a text, without the words that only join them."""
    pieces = (part for piece in _PIECE.findall(text) for part in _JOINT.split(piece))
    cleaned = (_OPENING.sub("", piece.strip()).strip(" \t\n,;.!?") for piece in pieces)
    return [piece for piece in cleaned if piece]


def unquoted(name: str) -> str:
    """Returns a name without its quotes."""
    name = name.strip()
    return name[1:-1].strip() if len(name) > 1 and re.fullmatch(QUOTED, name) else name


def label_of(word: str) -> str:
    """Returns the label that a word for nodes stands for: tickets, ticket and 'Ticket' are Ticket."""
    name = unquoted(word)
    if not name.islower():
        return name
    singular = re.sub(r"(?<=[^s])s$", "", re.sub(r"ies$", "y", name))
    return "".join(part.capitalize() for part in re.split(r"[\s_-]+", singular))
