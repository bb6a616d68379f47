"""Words by which a model says that it can't answer."""

from __future__ import annotations

import re
from typing import Final

BEGINNING: Final = 300
# How the prompt has a model say that it can't answer, and how models say it anyway.
_CANNOT: Final = re.compile(
    r"\W*(?:unanswerable\b\W*|(?:(?:i'm |i am )?(?:so |very )?sorry|unfortunately|apologies)?\W*(?:but )?"
    r"(?:i|we) (?:can't|cannot|can not|couldn't|could not|am unable|am not able|don't have|do not have)\b"
    r"|(?:leider |tut mir leid\W{1,3})?(?:ich|wir) (?:kann|k\u00f6nnen|konnte|konnten) (?:\w+ ){0,4}(?:nicht|keine)\b"
    r"|(?:leider )?(?:kann|konnte) ich (?:\w+ ){0,4}(?:nicht|keine)\b"
    r"|(?:lo siento\W{1,3})?(?:pero )?no (?:puedo|pude|podemos|pudimos)\b)",
    re.IGNORECASE,
)


def admits_inability(text: str) -> bool:
    """Tells whether a text begins with that its author can't answer, in English, German or Spanish."""
    # Only its beginning is looked at: this takes time that grows with the square of what it looks at.
    return _CANNOT.match(text[:BEGINNING]) is not None
