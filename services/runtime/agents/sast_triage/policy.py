"""Limits of `sast_triage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class SastTriagePolicy:
    """What one finding may take."""

    max_iterations: Annotated[int, Field(ge=1, le=200)] = 15
    max_error_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    history_messages: Annotated[int, Field(ge=1, le=200)] = 10
    draft_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    bank_fragments: Annotated[int, Field(ge=1, le=10_000)] = 200
    bank_chars: Annotated[int, Field(ge=1000, le=10_000_000)] = 1_000_000
    prompt_code_chars: Annotated[int, Field(ge=1000, le=10_000_000)] = 120_000
    context_characters: Annotated[int, Field(ge=1000, le=10_000_000)] = 60_000
    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 600.0
