"""Limits of `incident_investigation`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class IncidentPolicy:
    """What one incident may take.

    An answer is sure enough from `least_confidence` on; one with evidence that does not hold, or that was refuted, has
    `unproved_confidence` at most. `answer_attempts` are calls of a model for one answer that can be used. A turn is one
    such answer; an iteration is a final answer, or turns that have asked for `calls_per_iteration` calls: who asks one
    by one has as many as who asks for five at once, for `max_turns` at most. Prompts hold `context_characters` of what
    tools gave.
    """

    max_iterations: Annotated[int, Field(ge=1, le=100)] = 5
    calls_per_iteration: Annotated[int, Field(ge=1, le=50)] = 5
    max_turns: Annotated[int, Field(ge=1, le=500)] = 25
    least_confidence: Annotated[float, Field(ge=0, le=1)] = 0.7
    unproved_confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    answer_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    calls_at_once: Annotated[int, Field(ge=1, le=50)] = 12
    result_chars: Annotated[int, Field(ge=200, le=1_000_000)] = 20_000
    context_characters: Annotated[int, Field(ge=1000, le=10_000_000)] = 60_000
    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 600.0
