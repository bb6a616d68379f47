"""What one caller may have under way and start; the counting is in the database, in `broken_quota`."""

from __future__ import annotations

from dataclasses import dataclass

from services.runtime.errors import RunQuotaExceeded, TooManyRunsAtOnce, TooManyRunsStarted
from services.runtime.metrics import RUNS_REFUSED

AT_ONCE = "at_once"


@dataclass(frozen=True)
class CallerQuota:
    """Runs under way at once and runs started in a minute, on all replicas together. 0 is no limit."""

    runs_at_once: int = 0
    runs_per_minute: int = 0

    def refusal(self, quota: str, retry_after_s: float) -> RunQuotaExceeded:
        """Returns the error for a run that would break a quota, and counts it."""
        RUNS_REFUSED.labels(quota).inc()
        if quota == AT_ONCE:
            message = f"{self.runs_at_once} runs of this caller are under way already; let one end first"
            return TooManyRunsAtOnce(message, retry_after_s=retry_after_s)
        message = f"this caller has started {self.runs_per_minute} runs within a minute; slow down"
        return TooManyRunsStarted(message, retry_after_s=retry_after_s)
