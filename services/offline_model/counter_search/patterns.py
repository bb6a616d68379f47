"""Regular expressions of the code that is run: each for a moment only, as some take longer than anybody waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import regex

TIMEOUT_S = 0.05
MAX_LATE = 3
MAX_LENGTH = 500
_SEARCHES: Final = ("match", "fullmatch", "search", "findall", "sub", "split")


class TooLong(Exception):
    """The expression takes longer than its answer is worth."""


class Patterns:
    """The expressions of one search, which together may be late a few times; others run on meanwhile."""

    def __init__(self) -> None:
        self._late = 0
        self.functions: Mapping[str, Callable[..., Any]] = {
            **{f"re.{name}": partial(self._asked, getattr(regex, name)) for name in _SEARCHES},
            "re.compile": self._compiled, "re.escape": regex.escape,
        }  # fmt: skip

    def method_of(self, pattern: regex.Pattern[str], name: str) -> Callable[..., Any] | None:
        """Returns a method of a compiled expression; None for one that is no search."""
        return partial(self._asked, getattr(pattern, name)) if name in _SEARCHES else None

    def _compiled(self, text: str) -> regex.Pattern[str]:
        if self._late >= MAX_LATE or len(text) > MAX_LENGTH:
            raise TooLong
        return regex.compile(text)

    def _asked(self, search: Callable[..., Any], *given: Any) -> Any:
        if self._late >= MAX_LATE or any(isinstance(one, str) and len(one) > MAX_LENGTH for one in given):
            raise TooLong
        try:
            return search(*given, timeout=TIMEOUT_S, concurrent=True)
        except TimeoutError as error:
            self._late += 1
            raise TooLong from error
