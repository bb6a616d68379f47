"""Errors as they go over the wire.

SignalboxError
├── one tree of leaves per service (services/<service>/errors.py)
└── the leaves of the kit: identity.py, model.py

A leaf has a reason (upper snake case, unique), a gRPC code and whether a retry can help. The server interceptor turns
it into a `google.rpc.Status`; `error_detail` reads that back on the client's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from services.kit.telemetry.names import ERROR_DOMAIN

_CODES = {code: code.value[0] for code in grpc.StatusCode}
# An error travels in a call's trailers, of which gRPC lets 8 KiB pass: the status in base64, and its message once more,
# three times as long where it is not ASCII.
MOST_MESSAGE_BYTES = 1_000
MOST_DETAILS_BYTES = 2_400
MOST_WORDS_BYTES = 300
_RETRYABLE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.RESOURCE_EXHAUSTED})


@dataclass(frozen=True)
class FieldViolation:
    """What is wrong with one field of a request."""

    field: str
    description: str
    reason: str = ""


class SignalboxError(Exception):
    """An error that a caller may see; leaves name the reason, the code and whether a retry can help."""

    reason: ClassVar[str] = "INTERNAL"
    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
        violations: Sequence[FieldViolation] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s
        self.violations = tuple(violations)


class InvalidRequest(SignalboxError):
    """A request broke the rules declared in the protos."""

    reason = "INVALID_REQUEST"
    code = grpc.StatusCode.INVALID_ARGUMENT


def to_status(error: SignalboxError) -> status_pb2.Status:
    """Builds the `google.rpc.Status` of an error, with ErrorInfo and, where they fit, RetryInfo and BadRequest.

    It is as large as gRPC carries: long texts are cut, and of many violations the first are named.
    """
    metadata = {name: _cut(value, MOST_WORDS_BYTES) for name, value in error.metadata.items()}
    metadata["retryable"] = "true" if error.retryable else "false"
    details = [_pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=metadata))]
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(_pack(retry))
    if error.violations:
        room = MOST_DETAILS_BYTES - sum(detail.ByteSize() for detail in details)
        details.append(_pack(_bad_request(error.violations, room)))
    return status_pb2.Status(code=_CODES[error.code], message=_cut(error.message, MOST_MESSAGE_BYTES), details=details)


def _bad_request(violations: Sequence[FieldViolation], room: int) -> error_details_pb2.BadRequest:
    """Names as many violations as there is room for, and says how many more there are."""
    bad = error_details_pb2.BadRequest()
    for number, violation in enumerate(violations):
        bad.field_violations.add(
            field=_cut(violation.field, MOST_WORDS_BYTES),
            description=_cut(violation.description, MOST_WORDS_BYTES),
            reason=_cut(violation.reason, MOST_WORDS_BYTES),
        )
        if bad.ByteSize() > room:
            del bad.field_violations[-1]
            bad.field_violations.add(description=f"and {len(violations) - number} more")
            break
    return bad


def _cut(text: str, most_bytes: int) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= most_bytes else encoded[:most_bytes].decode(errors="ignore") + "…"


def internal_status(trace_id: str) -> status_pb2.Status:
    """Builds the status of an error nobody foresaw: a trace id to look it up by, and nothing else."""
    info = error_details_pb2.ErrorInfo(reason="INTERNAL", domain=ERROR_DOMAIN, metadata={"trace_id": trace_id})
    return status_pb2.Status(
        code=code_pb2.INTERNAL,
        message=f"internal error; look up trace {trace_id or 'in the logs'}",
        details=[_pack(info)],
    )


def _pack(
    message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo | error_details_pb2.BadRequest,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


@dataclass(frozen=True)
class ErrorDetail:
    """A failed call, as its caller can act on it."""

    code: grpc.StatusCode
    reason: str
    message: str
    retryable: bool
    retry_after_s: float | None = None
    violations: tuple[FieldViolation, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """Returns the status that a failed call came with; None where there is none, or one that is not its own."""
    try:
        status: status_pb2.Status | None = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        # What stands between has put a code of its own in the place of the sender's, or this is no status at all.
        return None
    return status


def error_detail(error: grpc.aio.AioRpcError) -> ErrorDetail:
    """Reads the code, the reason and the details of a failed call; a plain gRPC error has its code's name as reason."""
    code: grpc.StatusCode = error.code()
    message = error.details() or ""
    reason, metadata, retry_after_s = code.name, {}, None
    violations: tuple[FieldViolation, ...] = ()
    retryable = code in _RETRYABLE
    status = status_of(error)
    for packed in status.details if status else ():
        if packed.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo.FromString(packed.value)
            reason, metadata = info.reason, dict(info.metadata)
            retryable = metadata.get("retryable", str(retryable).lower()) == "true"
        elif packed.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry_after_s = error_details_pb2.RetryInfo.FromString(packed.value).retry_delay.ToNanoseconds() / 1e9
        elif packed.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest.FromString(packed.value)
            violations = tuple(FieldViolation(v.field, v.description, v.reason) for v in bad.field_violations)
    return ErrorDetail(code, reason, message, retryable, retry_after_s, violations, metadata)
