"""Reading the prompts of the agents that judge findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from services.offline_model.code_review.review import Finding
from services.offline_model.code_review.shown import Shown
from services.offline_model.prompt_data import CodePart, FindingToReview, as_prompt

_NUMBERED = re.compile(r"^\s*(?P<number>\d+) \| ?(?P<text>.*)$")
_TOOL_HEADING = re.compile(r"^(?P<file>\S.*) lines \d+-\d+ of (?P<total>\d+) \(.*\)$")
# How the tools and the code bank show a form feed: a blank to Python, which counts an indentation from it on.
_FORM_FEED = "<U+000C>"
_INDENTED_ANEW = re.compile(r"^[ \t\f]*\f")
_CALLED = re.compile(r"^called at (?P<file>\S.*?):(?P<line>\d+)(?: in \S+)?: ", re.MULTILINE)


def read_finding(data: Mapping[str, Any]) -> Finding | None:
    """Returns the finding that a prompt describes, or None."""
    given = as_prompt(FindingToReview, data)
    return None if given is None else Finding(**given.finding.model_dump())


def read_bank(data: Mapping[str, Any]) -> Shown:
    """Returns the code of a prompt's code bank."""
    given, shown = as_prompt(FindingToReview, data), Shown()
    for part in given.code_bank if given else ():
        lines = (numbered for line in part.code if (numbered := _NUMBERED.match(line)))
        found = {int(line["number"]): _as_written(line["text"]) for line in lines}
        if part.total_lines:
            shown.add(part.file, found, total_lines=part.total_lines)
        else:
            shown.add(part.file, found)
    return shown


def read_results(results: Iterable[str]) -> Shown:
    """Returns the code of the code tools' results."""
    shown = Shown()
    for result in results:
        file = ""
        for line in result.split("\n"):
            heading = _TOOL_HEADING.match(line)
            if heading:
                file = heading["file"]
                shown.add(file, {}, total_lines=int(heading["total"]))
            elif not line:
                file = ""
            elif file and (numbered := _NUMBERED.match(line)):
                shown.add(file, {int(numbered["number"]): _as_written(numbered["text"])})
    return shown


def _as_written(text: str) -> str:
    """Returns a line of a prompt as Python reads it."""
    return _INDENTED_ANEW.sub("", text.replace(_FORM_FEED, "\f")) if _FORM_FEED in text else text


@dataclass(frozen=True)
class Progress:
    """What the triage prompt says has been done."""

    read: tuple[CodePart, ...]
    symbols: frozenset[str]

    def has_read(self, file: str, line: int) -> bool:
        """Tells whether a line has been read."""
        return any(part.file == file and part.first_line <= line <= part.last_line for part in self.read)


def read_progress(data: Mapping[str, Any]) -> Progress:
    """Returns what a triage has read."""
    given = as_prompt(FindingToReview, data)
    return Progress(given.read, frozenset(given.symbols)) if given else Progress((), frozenset())


def read_uses(data: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Returns the tool calls that were made, as (tool, canonical arguments)."""
    made = data.get("tool_calls") or ()
    return {(use["tool"], json.dumps(use["arguments"], ensure_ascii=False, sort_keys=True)) for use in made}


def read_callers(results: Iterable[str]) -> list[tuple[str, int]]:
    """Returns the places that a symbol's result lists as its callers."""
    return [(called["file"], int(called["line"])) for result in results for called in _CALLED.finditer(result)]
