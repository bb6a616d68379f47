"""The skill behind `signalbox-offline-analysis`: a verdict from the code bank, with the lines that it rests on."""

from __future__ import annotations

from typing import Any, Final

from services.offline_model.code_review.opinion import Evidence
from services.offline_model.code_review.prompts import read_bank, read_finding
from services.offline_model.code_review.review import review
from services.offline_model.code_review.shown import Shown
from services.offline_model.conversation import Answer, Call, Conversation

SUBMIT_VERDICT: Final = "submit_verdict"
MAX_QUOTE = 4000


def draft_verdict(conversation: Conversation) -> Answer:
    """Hands in what the code bank shows."""
    finding = read_finding(conversation.data)
    if finding is None:
        return Answer("I was shown no finding.")
    shown = read_bank(conversation.data)
    opinion = review(finding, shown)
    missing = "; ".join(map(str, opinion.needs))
    arguments: dict[str, Any] = {
        "verdict": opinion.verdict,
        "confidence": opinion.confidence,
        "justification": f"{opinion.justification}{f' Missing: {missing}.' if missing else ''}",
        "claims": [_claim(evidence, shown) for evidence in opinion.evidence],
    }
    return Answer(calls=(Call(SUBMIT_VERDICT, arguments),))


def _claim(evidence: Evidence, shown: Shown) -> dict[str, Any]:
    file = shown.file(evidence.file)
    quote = file.text(evidence.first_line, evidence.last_line).strip() if file else ""
    place = {"file": evidence.file, "first_line": evidence.first_line, "last_line": evidence.last_line}
    return {"claim": evidence.claim, **place, "quote": quote[:MAX_QUOTE]}
