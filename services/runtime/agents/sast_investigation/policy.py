"""Limits of `sast_investigation`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SastInvestigationPolicy:
    """What one finding may take."""

    max_iterations: int = 5
    max_rejection_streak: int = 3
    max_no_progress_streak: int = 2
    subgraph_steps: int = 100
    research_steps: int = 80
    research_model_calls: int = 15
    research_calls_per_turn: int = 8
    draft_attempts: int = 3
    bank_fragments: int = 200
    bank_chars: int = 1_000_000
    prompt_code_chars: int = 120_000
