"""What the model is asked.

The user message is one block of JSON: whatever a repository holds stands in JSON strings and cannot pass for a part of
the prompt. Comments and docstrings are left out of the code, because nothing in them can decide a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from services.evaluator.bank import CodeBank, SourceFile
from services.evaluator.connections import Connections, Span
from services.evaluator.draft import Draft, Finding
from services.kit.models.prompts import data_block, prompt, words

INVESTIGATION: Final = "comprehensive_evaluation"
CRITIQUE: Final = "critique"
MOST_CALLERS: Final = 50


def investigation_prompt(*, last_word: bool) -> str:
    """Returns the instructions for a comprehensive evaluation."""
    return _judge(INVESTIGATION, last_word=last_word)


def critique_prompt() -> str:
    """Returns the instructions for a critique."""
    return _judge(CRITIQUE)


def again(system: str, problem: str) -> str:
    """Returns the instructions for a second attempt after an answer that could not be read."""
    return f"{system}\n\n{prompt(__package__, 'again', {'problem': problem})}"


def _judge(task: str, **known: Any) -> str:
    return f"{words(__package__, 'judge')}\n{prompt(__package__, task, {'task': task, **known})}"


def case_document(finding: Finding, draft: Draft, bank: CodeBank, *, code_characters: int) -> str:
    """Returns the case as data; code beyond the limit is left out, the cited and flagged lines last of all.

    Left out is also what nobody can tell from comments.
    """
    callers = Connections(bank, finding.places).callers()
    document = {
        "finding": {
            "rule": finding.rule_id,
            "cwe": finding.cwe,
            "message": finding.message,
            **_place(finding.location),
            "trace": [_place(span) for span in finding.trace],
            "related": [_place(span) for span in finding.related],
            "callers_read": [_place(span) for span in callers[:MOST_CALLERS]],
        },
        "draft": {
            "verdict": draft.verdict,
            "confidence": draft.confidence,
            "justification": draft.justification,
            "claims": [{"claim": evidence.claim, "lines": evidence.cited} for evidence in draft.evidence],
        },
        **_code(finding, draft, bank, code_characters),
    }
    return data_block(document)


def _place(span: Span) -> dict[str, Any]:
    return {"file": span.file, "first_line": span.first_line, "last_line": span.last_line}


def _code(finding: Finding, draft: Draft, bank: CodeBank, limit: int) -> Mapping[str, Any]:
    spans = [*finding.places, *(evidence.span for evidence in draft.evidence)]
    wanted = list(_by_importance(bank, spans))
    shown: dict[str, dict[int, str]] = {}
    left, unread = limit, 0
    for count, (file, number) in enumerate(wanted):
        line = file.lines[number]
        unread += bool(line.unread)
        code = line.code
        if not code:
            continue
        left -= len(code) + 8
        if left < 0:
            return {"code_bank": _files(shown), "lines_left_out": len(wanted) - count + unread}
        shown.setdefault(file.path, {})[number] = code
    return {"code_bank": _files(shown), **({"lines_left_out": unread} if unread else {})}


def _files(shown: Mapping[str, Mapping[int, str]]) -> list[dict[str, Any]]:
    return [
        {"file": path, "code": [f"{number} | {lines[number]}" for number in sorted(lines)]}
        for path, lines in sorted(shown.items())
    ]


def _by_importance(bank: CodeBank, spans: Iterable[Span]) -> Iterable[tuple[SourceFile, int]]:
    """Yields each line that was read once: the cited and flagged ones, then the rest, nearest to them first."""
    cited: dict[str, list[int]] = {}
    for span in spans:
        file = bank.file(span.file)
        if file:
            numbers = range(span.first_line, min(span.last_line, file.total_lines) + 1)
            cited.setdefault(file.path, []).extend(number for number in numbers if number in file.lines)
    lines = [(file, number) for file in bank.files for number in sorted(file.lines)]
    far = 10**9

    def distance(line: tuple[SourceFile, int]) -> int:
        near = nearest[line[0].path]
        return near[line[1]] if near else far

    nearest = {file.path: _distances(file, cited.get(file.path, [])) for file in bank.files}
    return sorted(lines, key=distance)


def _distances(file: SourceFile, cited: Iterable[int]) -> dict[int, int]:
    """Returns for each line of a file how far the nearest cited one is; empty when none is cited."""
    marks = sorted(set(cited))
    if not marks:
        return {}
    found, at = {}, 0
    for number in sorted(file.lines):
        while at + 1 < len(marks) and abs(marks[at + 1] - number) <= abs(marks[at] - number):
            at += 1
        found[number] = abs(marks[at] - number)
    return found
