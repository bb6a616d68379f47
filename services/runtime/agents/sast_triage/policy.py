"""Limits of `sast_triage`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SastTriagePolicy:
    """What one finding may take."""

    max_iterations: int = 15
    max_error_attempts: int = 3
    history_messages: int = 10
    draft_attempts: int = 3
    bank_fragments: int = 200
    bank_chars: int = 1_000_000
    prompt_code_chars: int = 120_000
