"""What a prompt about a finding holds: the finding, the code that was read, and what was asked for already."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from services.offline_model.conversation import Conversation
from services.offline_model.prompt_data import Finding, FindingToReview, ResearchSoFar, as_prompt


@dataclass
class ReadFile:
    """The lines of a file that were read, by number; `total` is 0 where nobody said how many it has."""

    lines: dict[int, str] = field(default_factory=dict)
    total: int = 0

    @property
    def first_unread(self) -> int:
        """The first line that was not read; 0 when all were."""
        return next((number for number in range(1, self.total + 1) if number not in self.lines), 0 if self.total else 1)


@dataclass(frozen=True)
class ReviewRequest:
    """A finding to look at. asked: the tool calls made, as (tool, arguments in canonical JSON)."""

    finding: Finding
    files: dict[str, ReadFile]
    asked: frozenset[tuple[str, str]] = frozenset()

    @property
    def flagged_file(self) -> ReadFile:
        """The file that the finding is in, as far as it was read."""
        return self.files.get(self.finding.file) or ReadFile()


def read_review_request(conversation: Conversation) -> ReviewRequest | None:
    """Returns what a conversation is about; None when it shows no finding."""
    given = as_prompt(FindingToReview, conversation.data)
    if given is None:
        return None
    files: dict[str, ReadFile] = {}
    for part in given.code_bank:
        file = files.setdefault(part.file, ReadFile())
        file.total = max(file.total, part.total_lines)
        file.lines |= part.numbered
    so_far = as_prompt(ResearchSoFar, conversation.data)
    asked = {(use.tool, canonical(use.arguments)) for use in (so_far.tool_calls if so_far else ())}
    asked |= {(call.tool, canonical(call.arguments)) for call in conversation.calls}
    return ReviewRequest(given.finding, files, frozenset(asked))


def canonical(arguments: Any) -> str:
    """Returns a call's arguments in a form in which equal ones are equal."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)
