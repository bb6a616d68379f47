"""Errors of the gateway itself; those of the runtime pass through as they are.

SignalboxError
├── QuotaExceeded: TooManyRequests, TooManyStreams
├── RoleMissing
├── RuntimeUnavailable
├── BatchesUnavailable
├── Draining
└── KeysUnavailable
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class QuotaExceeded(SignalboxError):
    """A caller asked for more than its share."""

    reason = "QUOTA_EXCEEDED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class TooManyRequests(QuotaExceeded):
    """A caller calls too often."""

    reason = "TOO_MANY_REQUESTS"


class TooManyStreams(QuotaExceeded):
    """A caller holds too many streams open."""

    reason = "TOO_MANY_STREAMS"


class RoleMissing(SignalboxError):
    """The caller lacks the role that the method needs."""

    reason = "ROLE_MISSING"
    code = grpc.StatusCode.PERMISSION_DENIED


class RuntimeUnavailable(SignalboxError):
    """No replica of the runtime can be reached, or none in time."""

    reason = "RUNTIME_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class BatchesUnavailable(SignalboxError):
    """No replica of the service for batches can be reached; batches under way are not affected."""

    reason = "BATCHES_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class Draining(SignalboxError):
    """This gateway is shutting down; another one continues the stream, after the last event received."""

    reason = "DRAINING"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class KeysUnavailable(SignalboxError):
    """The issuer's keys can't be fetched, so no token can be checked."""

    reason = "KEYS_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True
