"""State of `sast_investigation`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from services.runtime.agents.code_review.case import CaseState
from services.runtime.routing.state import append


class ToolUse(TypedDict):
    """A tool call that research made; `outcome` is empty when it went well."""

    tool: str
    arguments: dict[str, Any]
    outcome: str
    new_lines: int


class Critique(TypedDict):
    """The evaluator's word on a draft."""

    outcome: str
    missing: list[str]
    reason: str


class SastInvestigationState(CaseState, total=False):
    """What a finding has come to so far.

    `iteration_count` counts completed rounds; `code_seen` is the size of the code bank at the last evaluation.
    """

    fetched_files: Annotated[list[str], append]
    tool_call_history: Annotated[list[ToolUse], append]
    research_ended: str
    draft: dict[str, Any] | None
    draft_problem: str
    critique: Critique
    rejection_streak: int
    no_progress_streak: int
    code_seen: int
    verdict: str
