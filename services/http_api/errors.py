"""Errors of the HTTP API, each a problem document (RFC 9457) that says what happened and what to do.

ApiError
├── NotJson           400: the body is no JSON
├── Ambiguous         400: the request has two meanings
├── TokenRefused      401: no token, or one that the gateway does not accept
├── NotAllowed        403
├── NotFound          404
├── WrongMethod       405
├── TooSlow           408: the body does not arrive
├── Conflict          409: the thread is busy, or the request does not fit what has become of it
├── TooLarge          413
├── WrongMediaType    415
├── Invalid           422: a field is wrong, or asks for what the platform does not do
├── NotOffered        422: a part of the protocol that is not served
├── Busy              429: a quota of the gateway's, or a bound of this replica's
├── GatewayFailed     502
├── GatewayAway       503
└── TooLate           504
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import grpc

from services.kit.errors import FieldViolation, error_detail

FALLBACK_RETRY_S = 1


class ApiError(Exception):
    """An error as a problem document: leaves set the status and a title, an instance what happened."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "The server failed"
    reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        detail: str,
        *,
        reason: str = "",
        violations: Sequence[FieldViolation] = (),
        retry_after_s: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.told_reason = reason or self.reason
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s
        self.metadata = dict(metadata or {})

    def body(self) -> dict[str, Any]:
        """Returns the problem document."""
        told = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.in_full,
            "reason": self.told_reason,
        }
        named = [{"field": each.field, "detail": each.description} for each in self.violations]
        return {
            **told,
            **({"errors": named} if named else {}),
            **({"metadata": self.metadata} if self.metadata else {}),
        }

    def headers(self) -> dict[str, str]:
        """Returns what goes with it: when to come again, and how to say who calls."""
        headers = {"cache-control": "no-store"}
        if self.status == TokenRefused.status:
            headers["www-authenticate"] = "Bearer"
        if self.retry_after_s is not None:
            headers["retry-after"] = str(max(FALLBACK_RETRY_S, round(self.retry_after_s)))
        return headers

    @property
    def in_full(self) -> str:
        """What happened, with what is wrong with which field: the SDKs show this and nothing else."""
        named = [": ".join(filter(None, (each.field, each.description))) for each in self.violations]
        told = [each for each in named if each not in self.detail]
        return f"{self.detail}: {'; '.join(told)}" if told else self.detail


class NotJson(ApiError):
    """The body is no JSON."""

    status, title, reason = 400, "The body is no JSON", "NOT_JSON"


class Ambiguous(ApiError):
    """The request says in two ways where it ends, so that a proxy may have read another one."""

    status, title, reason = 400, "The request has two meanings", "AMBIGUOUS"

    def headers(self) -> dict[str, str]:
        """Returns what goes with it: what follows on the connection may be the rest of this request."""
        return {**super().headers(), "connection": "close"}


class TokenRefused(ApiError):
    """No token, or one that the gateway does not accept."""

    status, title, reason = 401, "The token is not accepted", "TOKEN_MISSING"


class NotAllowed(ApiError):
    """The caller's roles are not enough."""

    status, title, reason = 403, "The caller may not do this", "NOT_ALLOWED"


class NotFound(ApiError):
    """There is no such thing, or not for this caller."""

    status, title, reason = 404, "Not found", "NOT_FOUND"


class WrongMethod(ApiError):
    """The address does not take the method."""

    status, title, reason = 405, "The address does not take that method", "WRONG_METHOD"


class TooSlow(ApiError):
    """The body does not arrive."""

    status, title, reason = 408, "The body did not arrive in time", "TOO_SLOW"


class Conflict(ApiError):
    """The request does not fit the present state."""

    status, title, reason = 409, "The request does not fit the present state", "CONFLICT"


class TooLarge(ApiError):
    """The body is larger than any may be."""

    status, title, reason = 413, "The body is too large", "TOO_LARGE"


class WrongMediaType(ApiError):
    """The body is said to be something else than JSON."""

    status, title, reason = 415, "The body is to be application/json", "WRONG_MEDIA_TYPE"


class Invalid(ApiError):
    """A field is wrong, or asks for what the platform does not do."""

    status, title, reason = 422, "The request is not valid", "INVALID_REQUEST"


class Busy(ApiError):
    """A quota of the gateway's, or a bound of this replica's."""

    status, title, reason = 429, "Too much at once", "TOO_MUCH"


class NotOffered(ApiError):
    """A part of the protocol that is not served; no 501, which LangGraph's JavaScript client asks again for 25 s."""

    status, title, reason = 422, "Not offered", "NOT_OFFERED"


class GatewayFailed(ApiError):
    """The gateway answered with an error of its own."""

    status, title, reason = 502, "The platform reported an error", "GATEWAY_FAILED"


class GatewayAway(ApiError):
    """No gateway answers."""

    status, title, reason = 503, "The platform does not answer", "GATEWAY_AWAY"


class TooLate(ApiError):
    """The gateway did not answer in time."""

    status, title, reason = 504, "The platform did not answer in time", "TOO_LATE"


_OF_CODE: Mapping[grpc.StatusCode, type[ApiError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.OUT_OF_RANGE: Invalid,
    grpc.StatusCode.UNAUTHENTICATED: TokenRefused,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.UNIMPLEMENTED: NotOffered,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
    grpc.StatusCode.UNAVAILABLE: GatewayAway,
    grpc.StatusCode.CANCELLED: GatewayAway,  # what a gateway that stops says to calls that still arrive
    grpc.StatusCode.DEADLINE_EXCEEDED: TooLate,
}
# What a stream waits out: the run goes on meanwhile.
PASSING = (GatewayAway, TooLate, Busy)


def from_rpc(error: grpc.aio.AioRpcError) -> ApiError:
    """Returns a failed call as its caller is told of it."""
    detail = error_detail(error)
    kind = _OF_CODE.get(detail.code, GatewayFailed)
    is_bare = detail.reason == detail.code.name
    if kind is Busy and is_bare:
        # The gateway says why. Without that it is gRPC that refuses an answer, which stays as large as it is.
        kind = GatewayFailed
    message = detail.message or detail.code.name
    if kind is GatewayAway and is_bare:  # gRPC's own words are for programs
        message = "no gateway answers; try again"
    retry_after_s = detail.retry_after_s
    if retry_after_s is None and kind in (Busy, GatewayAway):
        retry_after_s = FALLBACK_RETRY_S
    metadata = {name: value for name, value in detail.metadata.items() if name != "retryable"}
    return kind(
        message, reason=detail.reason, violations=detail.violations, retry_after_s=retry_after_s, metadata=metadata
    )
