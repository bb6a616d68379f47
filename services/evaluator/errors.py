"""Errors of the evaluator.

SignalboxError
└── InvalidRequest
    └── InvalidEvaluation   the request breaks the limits of the proto, or its code bank contradicts itself

A draft that does not hold is no error but an answer; a model that does not answer is the kit's ModelUnavailable,
one that can't be used its ModelUnusable.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.kit.errors import FieldViolation, InvalidRequest


class InvalidEvaluation(InvalidRequest):
    """The request cannot be judged as it is."""

    reason = "INVALID_EVALUATION"

    def __init__(self, violations: Sequence[FieldViolation]) -> None:
        first = violations[0]
        super().__init__(f"{first.field}: {first.description}", violations=violations)
