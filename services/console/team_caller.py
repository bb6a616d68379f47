"""Whom a page of a team's console is made for: whose token asks the gateway, and by what name the page calls them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from services.kit.identity.claims import LONGEST_NAME


@dataclass(frozen=True)
class TeamCaller:
    """A caller with their own token; `ends_at` is when that is over, in seconds since 1970."""

    token: str = field(repr=False)
    name: str
    ends_at: float
    may_log_out: bool

    def left_s(self) -> float:
        """Returns for how long the token is still good."""
        return max(0.0, self.ends_at - time.time())


_CALLER: ContextVar[TeamCaller | None] = ContextVar("signalbox_team_caller", default=None)


def current_caller() -> TeamCaller | None:
    """Returns who is served now; None in the console of one person."""
    return _CALLER.get()


def token_of_caller() -> str:
    """Returns the token of who is served now. Raises LookupError where that is nobody."""
    caller = _CALLER.get()
    if caller is None:
        raise LookupError("nobody's request is served here")
    return caller.token


@contextmanager
def serving_caller(caller: TeamCaller) -> Iterator[None]:
    """Serves a caller inside the context, in tasks that begin there as well."""
    earlier = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(earlier)


def name_in(claims: dict[str, object]) -> str:
    """Returns by what name claims call their subject: one that people read, if there is one; empty if there is none."""
    found = (claims.get(claim) for claim in ("name", "preferred_username", "email", "sub"))
    return next((each[:LONGEST_NAME] for each in found if isinstance(each, str) and each.strip()), "")
