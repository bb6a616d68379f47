"""What one caller may have under way, start and spend; the counting is in the database, in `broken_quota`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from services.runtime.errors import (
    RunQuotaExceeded,
    TooManyRunsAtOnce,
    TooManyRunsStarted,
    TooManyRunsWaiting,
    TooManyTokens,
)
from services.runtime.metrics import RUNS_REFUSED

AT_ONCE = "at_once"
TOKENS_PER_DAY = "tokens_per_day"
WAITING = "waiting"


@dataclass(frozen=True)
class CallerQuota:
    """Runs under way at once, runs started in a minute, tokens of a day, and runs that wait for people.

    On all replicas together; 0 means no limit. A run that waits for people is not under way.
    """

    runs_at_once: int = 0
    runs_per_minute: int = 0
    tokens_per_day: int = 0
    runs_waiting: int = 0

    def refusal(self, quota: str, retry_after_s: float) -> RunQuotaExceeded:
        """Returns the error for a run that would break a quota, and counts it."""
        RUNS_REFUSED.labels(quota).inc()
        if quota == AT_ONCE:
            message = f"{self.runs_at_once} runs of this caller are under way already; let one end first"
            return TooManyRunsAtOnce(message, retry_after_s=retry_after_s)
        if quota == WAITING:
            message = (
                f"{self.runs_waiting} runs of this caller wait for an answer; have some answered or cancelled first"
            )
            return TooManyRunsWaiting(message, retry_after_s=retry_after_s)
        if quota == TOKENS_PER_DAY:
            message = f"this caller's runs have spent {self.tokens_per_day} tokens or more today"
            return TooManyTokens(message, retry_after_s=retry_after_s)
        message = f"this caller has started {self.runs_per_minute} runs within a minute; slow down"
        return TooManyRunsStarted(message, retry_after_s=retry_after_s)


class TokensSpent:
    """Tokens that steps here have spent and the database has not been told of, by caller."""

    def __init__(self) -> None:
        self._tokens: Counter[str] = Counter()

    def add(self, subject: str, tokens: int) -> None:
        """Counts what a step has spent."""
        if tokens:
            self._tokens[subject] += tokens

    def take(self) -> Counter[str]:
        """Returns what there is, and begins anew."""
        taken, self._tokens = self._tokens, Counter()
        return taken

    def put_back(self, taken: Counter[str]) -> None:
        """Counts again what could not be written down."""
        self._tokens.update(taken)
