"""Limits of `data_chat`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataChatPolicy:
    """What one question may take."""

    max_iterations: int = 3
    max_error_attempts: int = 3
    top_k: int = 20
    preloaded_examples: int = 2
    turns_remembered: int = 5
