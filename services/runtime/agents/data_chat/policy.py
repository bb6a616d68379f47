"""Limits of `data_chat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class DataChatPolicy:
    """What one question may take."""

    max_iterations: Annotated[int, Field(ge=1, le=100)] = 3
    max_error_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 20
    preloaded_examples: Annotated[int, Field(ge=0, le=10)] = 2
    turns_remembered: Annotated[int, Field(ge=1, le=50)] = 5
    context_characters: Annotated[int, Field(ge=1000, le=10_000_000)] = 60_000
    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 240.0
