"""Path patterns as people write them: `*` within a directory, `**` across them, `?` for one character."""

from __future__ import annotations

import re
from functools import lru_cache

_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (_MEANINGS.get(token) or re.escape(token) for token in _TOKENS.findall(pattern))
    return re.compile("".join(parts), re.DOTALL)


def path_matches(pattern: str, path: str) -> bool:
    """Whether a whole path fits a pattern."""
    return _compiled(pattern).fullmatch(path) is not None
