"""The skill behind `signalbox-offline-evaluator`: reads the code itself, and approves what it would have said too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from services.offline_model.code_review.opinion import NEEDS_REVIEW, Opinion
from services.offline_model.code_review.prompts import read_case
from services.offline_model.code_review.review import review
from services.offline_model.conversation import Answer, Conversation

APPROVED, NEEDS_RESEARCH, NEEDS_REANALYSIS = "approved", "needs_research", "needs_reanalysis"


def judge_verdict(conversation: Conversation) -> Answer:
    """Judges a draft, as a critique or as a comprehensive evaluation, whichever was asked for."""
    case = read_case(conversation.question)
    if case is None:
        return Answer("I was shown no case.")
    finding, draft, shown = case
    opinion = review(finding, shown)
    outcome = _outcome(str(draft.get("verdict")), opinion)
    missing = [] if outcome == APPROVED else [*map(str, opinion.needs)] or [opinion.justification]
    if NEEDS_REANALYSIS in conversation.system:
        return Answer(json.dumps({"outcome": outcome, "missing": missing, "reason": opinion.justification}))
    return Answer(json.dumps(_evaluation(outcome, missing, draft, opinion)))


def _outcome(verdict: str, opinion: Opinion) -> str:
    if verdict == opinion.verdict:
        return APPROVED
    return NEEDS_RESEARCH if opinion.verdict == NEEDS_REVIEW else NEEDS_REANALYSIS


def _evaluation(outcome: str, missing: list[str], draft: Mapping[str, Any], opinion: Opinion) -> dict[str, Any]:
    approved = outcome == APPROVED
    return {
        "is_final": approved,
        "verdict": opinion.verdict,
        "confidence": min(opinion.confidence, float(draft.get("confidence") or 0.0)),
        "justification": opinion.justification,
        "exploration_gaps": missing,
    }
