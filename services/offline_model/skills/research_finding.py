"""The skill behind `signalbox-offline-research`: reads what the verdict still turns on, one step after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from services.kit.tools.names import (
    FETCH_CODE,
    READ_FILE,
    SEARCH_CODEBASE,
)
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.prompts import read_bank, read_finding, read_uses
from services.offline_model.code_review.review import review
from services.offline_model.code_review.shown import Shown
from services.offline_model.conversation import Answer, Call, Conversation

# Callers beyond these are taken to be like the ones before.
MAX_CALLERS = 6


def research_finding(conversation: Conversation) -> Answer:
    """Asks for the next thing that is missing, or says that nothing is."""
    finding = read_finding(conversation.data)
    if finding is None:
        return Answer("I was shown no finding.")
    shown = read_bank(conversation.data)
    used = read_uses(conversation.data)
    for need in review(finding, shown).needs:
        for tool, arguments in _calls_for(need, shown):
            made = (tool, json.dumps(arguments, ensure_ascii=False, sort_keys=True)) in used
            if tool in conversation.tools and not made:
                return Answer(calls=(Call(tool, arguments),))
    return Answer("I have read what I can use.")


def _calls_for(need: Need, shown: Shown) -> Iterator[tuple[str, dict[str, Any]]]:
    if need.kind == "file":
        yield READ_FILE, {"path": need.name}
    elif need.kind == "lines":
        yield FETCH_CODE, {"path": need.name, "first_line": need.line}
    elif need.kind == "callers":
        yield SEARCH_CODEBASE, {"pattern": f"{need.name}(", "glob": "*.py"}
        for path, line in _calls_in(shown, need.name)[:MAX_CALLERS]:
            yield FETCH_CODE, {"path": path, "first_line": line}
    else:
        yield FETCH_CODE, {"symbol": need.name}


def _calls_in(shown: Shown, name: str) -> list[tuple[str, int]]:
    call = re.compile(rf"(?<!def )\b{re.escape(name)}\s*\(")
    return [
        (file.path, number) for file in shown.python for number, line in sorted(file.lines.items()) if call.search(line)
    ]
