"""What is left of the deadline of the call being served, so that calls made on its behalf keep to it."""

from __future__ import annotations

import time
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def set_remaining(remaining_s: float | None) -> None:
    """Notes how many seconds the call being served has left; None: no limit."""
    _deadline.set(None if remaining_s is None else time.monotonic() + remaining_s)


def remaining(own_timeout_s: float | None = None) -> float | None:
    """Returns the seconds a call may take: its own timeout, or what the served call has left, if less."""
    deadline = _deadline.get()
    if deadline is None:
        return own_timeout_s
    left = max(deadline - time.monotonic(), 0.0)
    return left if own_timeout_s is None else min(own_timeout_s, left)
