"""Reading the prompts of the agents that judge findings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from services.offline_model.code_review.review import Finding
from services.offline_model.code_review.shown import Shown

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LOCATION = re.compile(rf"^location: (?P<file>{_QUOTED}):(?P<first>\d+)-(?P<last>\d+)$", re.MULTILINE)
_RULE = re.compile(rf"^rule: (?P<rule>{_QUOTED})$", re.MULTILINE)
_CWE = re.compile(r"^cwe: (?P<cwe>CWE-\d+)$", re.MULTILINE)
_BLOCK = re.compile(rf'^<code file=(?P<file>{_QUOTED}) lines="\d+-\d+" of="(?P<total>\d+)">$')
_NUMBERED = re.compile(r"^\s*(?P<number>\d+) \| ?(?P<text>.*)$")
_TOOL_HEADING = re.compile(r"^(?P<file>\S.*) lines \d+-\d+ of (?P<total>\d+) \(.*\)$")
# How the tools and the code bank show a form feed: a blank to Python, which counts an indentation from it on.
_FORM_FEED = "<U+000C>"
_INDENTED_ANEW = re.compile(r"^[ \t\f]*\f")
_READ = re.compile(rf"^- (?P<file>{_QUOTED}):(?P<first>\d+)-(?P<last>\d+)(?: \(.*\))?$")
_USE = re.compile(rf"^- (?P<tool>{_QUOTED}) (?P<arguments>\{{.*\}}): (?P<outcome>ok|failed)", re.MULTILINE)
_CALLED = re.compile(r"^called at (?P<file>\S.*?):(?P<line>\d+)(?: in \S+)?: ", re.MULTILINE)
_PLACE = re.compile(r"(?P<file>.+):(?P<first>\d+)-(?P<last>\d+)")


def read_finding(text: str) -> Finding | None:
    """Returns the finding that a prompt describes, or None."""
    _, heading, section = text.partition("## Finding\n")
    location, rule = _LOCATION.search(section), _RULE.search(section)
    if not heading or location is None:
        return None
    cwe = _CWE.search(section)
    return Finding(
        rule=json.loads(rule["rule"]) if rule else "",
        cwe=cwe["cwe"] if cwe else "",
        file=json.loads(location["file"]),
        first_line=int(location["first"]),
        last_line=int(location["last"]),
    )


def read_bank(text: str) -> Shown:
    """Returns the code of a prompt's code bank."""
    shown, file = Shown(), ""
    for line in text.split("\n"):
        block = _BLOCK.match(line)
        if block:
            file = json.loads(block["file"])
            shown.add(file, {}, total_lines=int(block["total"]))
        elif line == "</code>":
            file = ""
        elif file and (numbered := _NUMBERED.match(line)):
            shown.add(file, {int(numbered["number"]): _as_written(numbered["text"])})
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

    read: tuple[tuple[str, int, int], ...]
    symbols: frozenset[str]

    def has_read(self, file: str, line: int) -> bool:
        """Tells whether a line has been read."""
        return any(path == file and first <= line <= last for path, first, last in self.read)


def read_progress(text: str) -> Progress:
    """Returns what the state section of a triage prompt says."""
    ranges, symbols = [], ""
    for line in text.split("\n"):
        if found := _READ.match(line):
            ranges.append((json.loads(found["file"]), int(found["first"]), int(found["last"])))
        elif line.startswith("symbols found: "):
            symbols = line
    return Progress(tuple(ranges), frozenset(json.loads(name) for name in re.findall(_QUOTED, symbols)))


def read_uses(text: str) -> set[tuple[str, str]]:
    """Returns the tool calls that a research prompt lists, as (tool, canonical arguments)."""
    return {(json.loads(use["tool"]), use["arguments"]) for use in _USE.finditer(text)}


def read_callers(results: Iterable[str]) -> list[tuple[str, int]]:
    """Returns the places that a symbol's result lists as its callers."""
    return [(called["file"], int(called["line"])) for result in results for called in _CALLED.finditer(result)]


def read_case(text: str) -> tuple[Finding, Mapping[str, Any], Shown] | None:
    """Returns finding, draft and code of the evaluator's case, or None when it is none."""
    try:
        case = json.loads(text)
        place = _PLACE.fullmatch(case["finding"]["location"])
        if place is None:
            return None
        shown = Shown()
        for file in case["code"]:
            lines = (match for line in file["text"].split("\n") if (match := _NUMBERED.match(line)))
            shown.add(file["file"], {int(line["number"]): line["text"] for line in lines})
        told = case["finding"]
        finding = Finding(told["rule"], told["cwe"], place["file"], int(place["first"]), int(place["last"]))
        return finding, case["draft"], shown
    except (ValueError, KeyError, TypeError):
        return None
