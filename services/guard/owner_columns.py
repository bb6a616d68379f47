"""Finds the columns that the SQL policy says lead to owners, where a question uses them for more than its own rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.guard.text import plain_text, plain_words


class OwnerColumns:
    """The columns that hold owners, by the names that the policy gives them: `user_id`, `users.user_id`."""

    def __init__(self, names: Sequence[str]) -> None:
        columns = dict.fromkeys(plain_words(plain_text(name.rpartition(".")[2])) for name in names)
        spelt = [r"[_-]?".join(map(re.escape, name.split())) for name in columns if name]
        self._used = re.compile(_USED.format(names="|".join(spelt))) if spelt else None

    def used_for_others(self, text: str, own: frozenset[str]) -> bool:
        """Says whether a plain text uses such a column, other than to compare it with the caller's own id."""
        if self._used is None:
            return False
        return any(match["value"] not in own for match in self._used.finditer(text) if not match["mine"])


# `my user_id` asks for oneself; `user_id = 27` and `user_id::int in (27)` compare; anything else reaches further.
_USED = (
    r"(?:(?P<mine>\bmy\s)|\b)(?:{names})\b[\"'\]]?(?:\s{{0,4}}::\s{{0,4}}\w{{1,20}})?"
    r"(?:\s{{0,4}}(?:==?|is|:|in\s{{0,4}}\()\s{{0,4}}['\"]?(?P<value>[\w@.+-]{{1,128}})(?!\s{{0,4}},))?"
)
