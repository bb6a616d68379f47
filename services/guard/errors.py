"""Errors of the guard.

SignalboxError
└── InvalidRequest
    └── InvalidQuestion   the question breaks the limits of the proto

What goes wrong while screening is no error but the verdict BLOCK with reason `guard_unavailable`.
"""

from __future__ import annotations

from services.kit.errors import FieldViolation, InvalidRequest


class InvalidQuestion(InvalidRequest):
    """The question is empty or too long."""

    reason = "INVALID_QUESTION"

    def __init__(self, description: str) -> None:
        super().__init__(f"question: {description}", violations=[FieldViolation("question", description)])
