"""The skills behind `signalbox-offline-triage`, `-research` and `-analysis`: what to read of a finding, and a verdict.

Triage reads the flagged file, research what the verdict turns on, one step after the other; the verdict comes from the
code bank, with the lines that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from services.kit.tools.names import FETCH_CODE, READ_FILE, SEARCH_CODEBASE
from services.offline_model.code_review.opinion import Need, OpinionClaim
from services.offline_model.code_review.request import ReviewRequest, canonical, read_review_request
from services.offline_model.code_review.review import review
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.prompt_data import FindingToReview, as_prompt

ANALYZE_ISSUE: Final = "analyze_issue"
SUBMIT_VERDICT: Final = "submit_verdict"
MAX_TEXT: Final = 1900
_NO_FINDING: Final = Answer("I was shown no finding.")


def triage_finding(conversation: Conversation) -> Answer:
    """Fetches the file that is flagged, and leaves it at that: nothing else is decided from."""
    if SUBMIT_VERDICT in conversation.tools:
        return draft_verdict(conversation)
    given = as_prompt(FindingToReview, conversation.data)
    if given is None:
        return _NO_FINDING
    is_read = any(part.file == given.finding.file for part in given.read)
    if not is_read and not conversation.calls:
        return Answer(calls=(Call(FETCH_CODE, {"path": given.finding.file}),))
    return Answer(calls=(Call(ANALYZE_ISSUE, {}),))


def research_finding(conversation: Conversation) -> Answer:
    """Asks for the next thing that is missing and was not asked for, or says that nothing is."""
    request = read_review_request(conversation)
    if request is None:
        return _NO_FINDING
    for need in review(request).needs:
        for tool, arguments in _calls_for(need):
            if tool in conversation.tools and (tool, canonical(arguments)) not in request.asked:
                return Answer(calls=(Call(tool, arguments),))
    return Answer("I have read what I can use.")


def draft_verdict(conversation: Conversation) -> Answer:
    """Hands in what the code bank shows."""
    request = read_review_request(conversation)
    if request is None:
        return _NO_FINDING
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


def _calls_for(need: Need) -> Iterator[tuple[str, dict[str, Any]]]:
    if need.kind == "lines":
        yield READ_FILE, {"path": need.name, **({"first_line": need.line} if need.line > 1 else {})}
    elif need.kind == "callers":
        yield SEARCH_CODEBASE, {"pattern": f"{need.name}("}
    else:
        yield FETCH_CODE, {"symbol": need.name}


def _claim(claim: OpinionClaim, request: ReviewRequest) -> dict[str, Any]:
    lines = request.flagged_file.lines
    quote = "\n".join(lines[number] for number in range(claim.first_line, claim.last_line + 1)).strip()
    place = {"file": request.finding.file, "first_line": claim.first_line, "last_line": claim.last_line}
    return {"claim": claim.says[:MAX_TEXT], **place, "quote": quote[: 2 * MAX_TEXT]}
