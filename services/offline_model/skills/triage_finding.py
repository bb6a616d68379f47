"""The skill behind `signalbox-offline-triage`: decides the next step of a triage, and drafts its verdict."""

from __future__ import annotations

from typing import Final

from services.kit.tools.names import FETCH_CODE
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.prompts import Progress, read_callers, read_finding, read_progress, read_results
from services.offline_model.code_review.review import review
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.skills.draft_verdict import SUBMIT_VERDICT, draft_verdict

ANALYZE_ISSUE: Final = "analyze_issue"


def triage_finding(conversation: Conversation) -> Answer:
    """Fetches what the verdict still turns on, then has it analysed."""
    if SUBMIT_VERDICT in conversation.tools:
        return draft_verdict(conversation)
    finding = read_finding(conversation.data)
    if finding is None:
        return Answer("I was shown no finding.")
    progress = read_progress(conversation.data)
    if not progress.has_read(finding.file, finding.first_line) and not conversation.calls:
        return _fetch({"path": finding.file, "first_line": finding.first_line})
    results = conversation.results_of(FETCH_CODE)
    # A second failure would be a guess too many.
    if not any(result.startswith("error:") for result in results):
        for need in review(finding, read_results(results)).needs:
            if (wanted := _wanted(need, progress, results)) is not None:
                return _fetch(wanted)
    return Answer(calls=(Call(ANALYZE_ISSUE, {}),))


def _wanted(need: Need, progress: Progress, results: list[str]) -> dict[str, object] | None:
    if need.kind == "file":
        return None if progress.has_read(need.name, 1) else {"path": need.name}
    if need.kind == "lines":
        return None if progress.has_read(need.name, need.line) else {"path": need.name, "first_line": need.line}
    for file, line in read_callers(results):
        if need.kind == "callers" and not progress.has_read(file, line):
            return {"path": file, "first_line": line}
    known = any(symbol.rpartition(".")[2] == need.name for symbol in progress.symbols)
    return None if known else {"symbol": need.name}


def _fetch(arguments: dict[str, object]) -> Answer:
    return Answer(calls=(Call(FETCH_CODE, arguments),))
