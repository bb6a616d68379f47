"""State of `sast_triage`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from services.runtime.agents.code_review.case import CaseState
from services.runtime.routing.state import append


def count_errors(attempts: int | None, change: int) -> int:
    """The reducer of `error_attempts`: failures in a row; 0 starts the count anew."""
    return (attempts or 0) + change if change else 0


class RequestedCall(TypedDict):
    """The tool call that the model asks for; without a tool, it asked for none."""

    tool: str
    arguments: dict[str, Any]
    tool_call_id: str


class Analysis(TypedDict):
    """What the analysis came to: a draft, or what was wrong with every attempt at one.

    `code_seen` is the size of the code bank that it saw.
    """

    investigation_result: dict[str, Any] | None
    problem: str
    code_seen: int


class EvaluationResult(TypedDict):
    """What the evaluator says; `evidence` are the claims that passed its checks."""

    is_final: bool
    verdict: str
    confidence: float
    justification: str
    exploration_gaps: list[str]
    problems: list[str]
    evidence: list[dict[str, Any]]


class SastTriageState(CaseState, total=False):
    """What a finding has come to so far."""

    fetched_files: Annotated[list[str], append]
    found_symbols: Annotated[list[str], append]
    requested: RequestedCall
    last_call: str
    duplicate_call: bool
    error_attempts: Annotated[int, count_errors]
    analysis: Analysis
    evaluation_result: EvaluationResult
    is_final: bool
