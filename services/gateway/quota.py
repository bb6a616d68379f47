"""Quotas: what one caller may ask of one replica of the gateway.

They protect the platform from a caller that loops and are no budget to bill by: the counts are in memory and per
replica, so N replicas allow N times as much, and a restart forgets them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from services.gateway.errors import TooManyRequests, TooManyStreams
from services.gateway.metrics import QUOTA_REFUSALS

STREAM_RETRY_S = 1.0
# Callers remembered at once; beyond it, those longest idle are forgotten, which gives them a full bucket again.
MAX_CALLERS = 10_000


@dataclass(frozen=True)
class Quota:
    """Calls a minute on average, calls at once, and streams held open."""

    requests_per_minute: int
    burst: int
    concurrent_streams: int


@dataclass
class Account:
    """What one caller has left: a token bucket, filled over time and capped at the burst, and the streams it holds."""

    tokens: float
    filled_at: float
    streams: int = 0


class Quotas:
    """Keeps every caller to the same quota. `clock` returns monotonic seconds."""

    def __init__(self, quota: Quota, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._quota = quota
        self._clock = clock
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def spend_request(self, subject: str) -> None:
        """Counts one call. Raises TooManyRequests, with the seconds until the next one fits."""
        account = self._account(subject)
        if account.tokens < 1:
            QUOTA_REFUSALS.labels("requests").inc()
            at_once, a_minute = self._quota.burst, self._quota.requests_per_minute
            raise TooManyRequests(
                f"more than {at_once} calls at once, or {a_minute} a minute; slow down",
                retry_after_s=(1 - account.tokens) / self._tokens_per_s,
            )
        account.tokens -= 1

    @contextmanager
    def stream(self, subject: str) -> Iterator[None]:
        """Holds one stream open. Raises TooManyStreams."""
        account = self._account(subject)
        if account.streams >= self._quota.concurrent_streams:
            QUOTA_REFUSALS.labels("streams").inc()
            raise TooManyStreams(
                f"{self._quota.concurrent_streams} streams are open already; let one end first",
                retry_after_s=STREAM_RETRY_S,
            )
        account.streams += 1
        try:
            yield
        finally:
            account.streams -= 1

    @property
    def _tokens_per_s(self) -> float:
        return self._quota.requests_per_minute / 60

    def _account(self, subject: str) -> Account:
        now = self._clock()
        account = self._accounts.get(subject)
        if account is None:
            account = self._accounts[subject] = Account(tokens=self._quota.burst, filled_at=now)
            self._forget_idle()
        self._accounts.move_to_end(subject)
        earned = (now - account.filled_at) * self._tokens_per_s
        account.tokens = min(float(self._quota.burst), account.tokens + earned)
        account.filled_at = now
        return account

    def _forget_idle(self) -> None:
        while len(self._accounts) > MAX_CALLERS:
            idle = next((subject for subject, account in self._accounts.items() if not account.streams), None)
            if idle is None:
                return
            del self._accounts[idle]
