"""What a failed call of another service means: that it is away, which is waited for, or that it says no."""

from __future__ import annotations

import grpc

from services.kit.errors import ErrorDetail
from services.kit.tools.executor import BEHIND
from services.runtime.errors import DependencyAway, ServiceFailed

_AWAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        # What a server that has begun to stop says to calls that still arrive.
        grpc.StatusCode.CANCELLED,
    }
)
# Without a reason of the service's own these are the transport's words for a connection that broke off.
_CUT = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
STALE_EPOCH = "STALE_EPOCH"
TOO_LARGE = "larger than max"


def is_away(detail: ErrorDetail) -> bool:
    """Tells whether waiting can mend a failed call.

    gRPC says RESOURCE_EXHAUSTED of messages that are too large as well, which stay so.
    """
    if detail.code in _AWAY:
        return TOO_LARGE not in detail.message
    return detail.code in _CUT and not detail.metadata


def failure_of(detail: ErrorDetail, service: str, what: str) -> DependencyAway | ServiceFailed:
    """Returns what it means that a service could not do `what`: it is away, or what it names behind it, or says no."""
    if is_away(detail):
        away = DependencyAway(detail.metadata.get(BEHIND) or service, detail.reason)
        away.retry_after_s = detail.retry_after_s
        return away
    return ServiceFailed(
        f"the {service} could not {what} ({detail.reason}): {detail.message}",
        metadata={"service": service, "cause": detail.reason},
    )
