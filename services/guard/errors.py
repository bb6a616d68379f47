"""Errors of the guard.

SignalboxError
├── InvalidRequest
│   └── InvalidQuestion    the question or its turns break the limits of the proto
├── GuardUnavailable       no verdict for now: the model is away, slow or busy
└── GuardBroken            no verdict until an operator acts: the model refuses us, or gives no verdict

What keeps the guard from a verdict is never a verdict, so that nobody takes a fault for a refusal; and without a
verdict nothing is let through.
"""

from __future__ import annotations

import grpc

from services.kit.errors import FieldViolation, InvalidRequest, SignalboxError


class InvalidQuestion(InvalidRequest):
    """The question is empty or too long, or too much comes with it."""

    reason = "INVALID_QUESTION"

    def __init__(self, description: str, field: str = "question") -> None:
        super().__init__(f"{field}: {description}", violations=[FieldViolation(field, description)])


class GuardUnavailable(SignalboxError):
    """The guard's model gave no answer in time; the same question may be screened later."""

    reason = "GUARD_UNAVAILABLE"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class GuardBroken(SignalboxError):
    """The guard's model can't give verdicts as it is configured: it refuses the request, or answers something else."""

    reason = "GUARD_BROKEN"
    code = grpc.StatusCode.FAILED_PRECONDITION
