"""Limits of `graph_editor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

# As roles are called in tokens, or nothing.
ROLE: Final = r"^[A-Za-z0-9_.:-]{0,128}$"


@dataclass(frozen=True)
class GraphEditorPolicy:
    """What one goal may take.

    `max_failures` counts since the last good operation or advice; approvals are no questions.
    `max_unapproved_changes` are the nodes and edges that one run changes without an approval. A question waits for an
    answer for `question_lifetime_s`. Then it is asked once more, of `escalation_role` too, where there is one; then the
    option is taken that leaves things as they are (`expiry_declines`), or the run ends in review. Approvals are for
    whoever has `approval_role`; where that is empty, for the run's caller. Prompts hold `context_characters` of what
    was done and found.
    """

    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_failures: Annotated[int, Field(ge=1, le=20)] = 3
    max_operations: Annotated[int, Field(ge=1, le=1000)] = 25
    max_questions: Annotated[int, Field(ge=0, le=20)] = 3
    max_unapproved_changes: Annotated[int, Field(ge=0, le=1_000_000)] = 10
    question_lifetime_s: Annotated[float, Field(gt=0, le=2_592_000)] = 86_400.0
    escalation_role: Annotated[str, Field(pattern=ROLE)] = ""
    expiry_declines: Annotated[bool, Field()] = False
    approval_role: Annotated[str, Field(pattern=ROLE)] = ""
    context_characters: Annotated[int, Field(ge=1000, le=10_000_000)] = 60_000
    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 240.0
