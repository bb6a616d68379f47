"""The skill behind `signalbox-offline-triage`: reads the flagged file, then has the finding analysed."""

from __future__ import annotations

from typing import Final

from services.kit.tools.names import FETCH_CODE
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.prompt_data import FindingToReview, as_prompt
from services.offline_model.skills.draft_verdict import SUBMIT_VERDICT, draft_verdict

ANALYZE_ISSUE: Final = "analyze_issue"


def triage_finding(conversation: Conversation) -> Answer:
    """Fetches the file that is flagged, and leaves it at that: nothing else is decided from."""
    if SUBMIT_VERDICT in conversation.tools:
        return draft_verdict(conversation)
    given = as_prompt(FindingToReview, conversation.data)
    if given is None:
        return Answer("I was shown no finding.")
    finding = given.finding
    is_read = any(part.file == finding.file for part in given.read)
    if not is_read and not conversation.calls:
        return Answer(calls=(Call(FETCH_CODE, {"path": finding.file}),))
    return Answer(calls=(Call(ANALYZE_ISSUE, {}),))
