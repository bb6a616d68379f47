"""When a call to the runtime may be made again, and how long to wait first.

A replica that dies or drains cuts its calls; what arrives then has no details, because no servicer wrote it. An error
that a servicer wrote says itself whether a retry can help. Retries go on, with growing pauses, for `recovery_s` without
progress and never beyond the caller's deadline (the channel's interceptor keeps to that one).
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Final

import grpc

from services.gateway.errors import RuntimeUnavailable
from services.kit.errors import error_detail
from services.kit.wire import deadline

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
# What an attempt and its answer need: one begun later ends as the caller's deadline, and nobody hears the reason.
ATTEMPT_S: Final = 0.2
RETRY_AFTER_S: Final = 1.0
# What a caller sees of a connection that breaks, by how it broke; see https://grpc.github.io/grpc/core/md_doc_statuscodes.html
_CUT: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN})
_RESET_BY_PEER: Final = ("RST_STREAM", "GOAWAY")


def written_by_servicer(error: grpc.aio.AioRpcError) -> bool:
    """Whether an error carries details, which only a servicer gives it."""
    return any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata() or ())


def was_cut(error: grpc.aio.AioRpcError) -> bool:
    """Whether a call ended for a reason that another replica, or the same one later, does not share."""
    if written_by_servicer(error):
        return error.code() is grpc.StatusCode.UNAVAILABLE and error_detail(error).retryable
    reset = error.code() is grpc.StatusCode.INTERNAL and any(word in (error.details() or "") for word in _RESET_BY_PEER)
    return error.code() in _CUT or reset


@dataclass(frozen=True)
class RecoveryPolicy:
    """How long a call that makes no progress is tried again."""

    recovery_s: float


class Recovery:
    """The retries of one call."""

    def __init__(self, policy: RecoveryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._stuck_since: float | None = None
        # The last reason that a replica gave; a connection that breaks after it says less.
        self._reason: grpc.aio.AioRpcError | None = None

    def progressed(self) -> None:
        """Notes that the call got somewhere: the next failure is a first one again."""
        self._failures = 0
        self._stuck_since = None
        self._reason = None

    async def pause(self, cause: grpc.aio.AioRpcError | None, run_id: str = "") -> None:
        """Waits before the next attempt; the first comes at once, as another replica is likely to be there.

        When there has been no progress for too long, or no time is left, raises what a replica last gave as its reason,
        or else RuntimeUnavailable.
        """
        if cause is not None and written_by_servicer(cause):
            self._reason = cause
        now = time.monotonic()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        longest = LONGEST_PAUSE_S if self._failures else 0.0
        pause_s = min(longest, FIRST_PAUSE_S * 2**self._failures) * random.uniform(0.5, 1)  # noqa: S311 - spreads load
        self._failures += 1
        left_s = deadline.remaining()
        too_late = left_s is not None and left_s <= pause_s + (ATTEMPT_S if pause_s else 0.0)
        if too_late or now + pause_s - self._stuck_since > self._policy.recovery_s:
            if self._reason is not None:
                raise self._reason
            raise unavailable(run_id, too_late=too_late) from cause
        await asyncio.sleep(pause_s)


def unavailable(run_id: str = "", *, too_late: bool = False) -> RuntimeUnavailable:
    """The error for a caller whose call found no replica, at all or before its deadline."""
    if run_id:
        return RuntimeUnavailable(
            f"the platform lost its connection to run {run_id}; the run is not affected: watch it again",
            metadata={"run_id": run_id},
            retry_after_s=RETRY_AFTER_S,
        )
    told = (
        "no replica of the runtime was reached before the call's deadline; give it longer"
        if too_late
        else ("no replica of the runtime can be reached; try again")
    )
    return RuntimeUnavailable(told, retry_after_s=RETRY_AFTER_S)
