"""The skill behind `signalbox-offline-research`: reads what the verdict turns on, one step after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.kit.tools.names import FETCH_CODE, READ_FILE, SEARCH_CODEBASE
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.request import canonical, read_review_request
from services.offline_model.code_review.review import review
from services.offline_model.conversation import Answer, Call, Conversation


def research_finding(conversation: Conversation) -> Answer:
    """Asks for the next thing that is missing and was not asked for, or says that nothing is."""
    request = read_review_request(conversation)
    if request is None:
        return Answer("I was shown no finding.")
    for need in review(request).needs:
        for tool, arguments in _calls_for(need):
            if tool in conversation.tools and (tool, canonical(arguments)) not in request.asked:
                return Answer(calls=(Call(tool, arguments),))
    return Answer("I have read what I can use.")


def _calls_for(need: Need) -> Iterator[tuple[str, dict[str, Any]]]:
    if need.kind == "lines":
        yield READ_FILE, {"path": need.name, **({"first_line": need.line} if need.line > 1 else {})}
    elif need.kind == "callers":
        yield SEARCH_CODEBASE, {"pattern": f"{need.name}("}
    else:
        yield FETCH_CODE, {"symbol": need.name}
