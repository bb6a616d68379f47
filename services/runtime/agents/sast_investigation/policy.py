"""Limits of `sast_investigation`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class SastInvestigationPolicy:
    """What one finding may take."""

    max_iterations: Annotated[int, Field(ge=1, le=50)] = 5
    max_rejection_streak: Annotated[int, Field(ge=1, le=50)] = 3
    max_no_progress_streak: Annotated[int, Field(ge=1, le=50)] = 2
    subgraph_steps: Annotated[int, Field(ge=10, le=10_000)] = 100
    research_steps: Annotated[int, Field(ge=3, le=10_000)] = 80
    research_model_calls: Annotated[int, Field(ge=1, le=1000)] = 15
    research_calls_per_turn: Annotated[int, Field(ge=1, le=100)] = 8
    draft_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    bank_fragments: Annotated[int, Field(ge=1, le=10_000)] = 200
    bank_chars: Annotated[int, Field(ge=1000, le=10_000_000)] = 1_000_000
    prompt_code_chars: Annotated[int, Field(ge=1000, le=10_000_000)] = 120_000
    # Research is one node: many calls.
    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 2400.0
