"""The skill behind `signalbox-offline-analysis`: a verdict from the code bank, with the lines that it rests on."""

from __future__ import annotations

from typing import Any, Final

from services.offline_model.code_review.opinion import OpinionClaim
from services.offline_model.code_review.request import ReviewRequest, read_review_request
from services.offline_model.code_review.review import review
from services.offline_model.conversation import Answer, Call, Conversation

SUBMIT_VERDICT: Final = "submit_verdict"
MAX_TEXT = 1900


def draft_verdict(conversation: Conversation) -> Answer:
    """Hands in what the code bank shows."""
    request = read_review_request(conversation)
    if request is None:
        return Answer("I was shown no finding.")
    opinion = review(request)
    missing = f" Missing: {'; '.join(map(str, opinion.needs))}." if opinion.needs else ""
    arguments: dict[str, Any] = {
        "verdict": opinion.verdict,
        # Nobody has measured how often these rules are right.
        "confidence": 0.0,
        "justification": f"{opinion.why}{missing}"[:MAX_TEXT],
        "claims": [_claim(claim, request) for claim in opinion.claims],
    }
    return Answer(calls=(Call(SUBMIT_VERDICT, arguments),))


def _claim(claim: OpinionClaim, request: ReviewRequest) -> dict[str, Any]:
    lines = request.flagged_file.lines
    quote = "\n".join(lines[number] for number in range(claim.first_line, claim.last_line + 1)).strip()
    place = {"file": request.finding.file, "first_line": claim.first_line, "last_line": claim.last_line}
    return {"claim": claim.says[:MAX_TEXT], **place, "quote": quote[: 2 * MAX_TEXT]}
