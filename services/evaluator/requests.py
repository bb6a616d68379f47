"""Requests to domain: every limit of the proto is checked before anything is judged."""

from __future__ import annotations

import math
from collections.abc import Iterator

from signalbox.v1 import evaluator_pb2, sast_pb2

from services.evaluator.bank import CodeBank, Fragment
from services.evaluator.connections import Span
from services.evaluator.draft import Draft, Evidence, Finding, Verdict
from services.evaluator.errors import InvalidEvaluation
from services.evaluator.evaluator import Case
from services.kit.errors import FieldViolation

MAX_CLAIMS = 50
MAX_FRAGMENTS = 200
MAX_PLACES = 100
MAX_JUSTIFICATION_CHARACTERS = 8000
MAX_CLAIM_CHARACTERS = 4000
Request = evaluator_pb2.EvaluateInvestigationRequest | evaluator_pb2.CritiqueVerdictRequest
_VERDICTS = {
    sast_pb2.VERDICT_TRUE_POSITIVE: Verdict.TRUE_POSITIVE,
    sast_pb2.VERDICT_FALSE_POSITIVE: Verdict.FALSE_POSITIVE,
    sast_pb2.VERDICT_NEEDS_REVIEW: Verdict.NEEDS_REVIEW,
}
VERDICT_NUMBERS = {verdict: number for number, verdict in _VERDICTS.items()}


def read_case(request: Request) -> Case:
    """Returns what a request asks to judge. Raises InvalidEvaluation."""
    violations = [*_missing(request), *_too_much(request), *_wrong_draft(request.draft), *_wrong_bank(request)]
    if violations:
        raise InvalidEvaluation(violations)
    return Case(
        finding=_finding(request.finding),
        draft=_draft(request.draft),
        bank=CodeBank(map(_fragment, request.code_bank), request.source.commit),
    )


def _missing(request: Request) -> Iterator[FieldViolation]:
    if not request.finding.location.file or request.finding.location.first_line < 1:
        yield FieldViolation("finding.location", "must name a file and a line counted from 1")
    if len(request.source.commit) != 40:
        yield FieldViolation("source.commit", "must be a commit of 40 hexadecimal digits")


def _too_much(request: Request) -> Iterator[FieldViolation]:
    sizes = {
        "finding.trace": (len(request.finding.trace), MAX_PLACES),
        "finding.related": (len(request.finding.related), MAX_PLACES),
        "draft.evidence": (len(request.draft.evidence), MAX_CLAIMS),
        "code_bank": (len(request.code_bank), MAX_FRAGMENTS),
    }
    for field, (size, most) in sizes.items():
        if size > most:
            yield FieldViolation(field, f"must have at most {most} items, not {size}")


def _wrong_draft(draft: evaluator_pb2.DraftVerdict) -> Iterator[FieldViolation]:
    if draft.verdict not in _VERDICTS:
        yield FieldViolation("draft.verdict", "must be a verdict")
    if math.isnan(draft.confidence) or not 0 <= draft.confidence <= 1:
        yield FieldViolation("draft.confidence", "must be from 0 to 1")
    if len(draft.justification) > MAX_JUSTIFICATION_CHARACTERS:
        yield FieldViolation("draft.justification", f"must have at most {MAX_JUSTIFICATION_CHARACTERS} characters")
    for index, evidence in enumerate(draft.evidence):
        if max(len(evidence.claim), len(evidence.quote)) > MAX_CLAIM_CHARACTERS:
            yield FieldViolation(f"draft.evidence[{index}]", f"must have at most {MAX_CLAIM_CHARACTERS} characters")


def _wrong_bank(request: Request) -> Iterator[FieldViolation]:
    for index, fragment in enumerate(request.code_bank):
        count = len(_lines(fragment))
        if fragment.first_line < 1 or not fragment.file:
            yield FieldViolation(f"code_bank[{index}]", "must name a file and a line counted from 1")
        elif fragment.last_line - fragment.first_line + 1 != count:
            said = f"{fragment.first_line} to {fragment.last_line}"
            yield FieldViolation(f"code_bank[{index}].content", f"has {count} lines, but is said to be lines {said}")
        elif _is_read(fragment) and len(fragment.reading.lines) != count:
            said = f"is of {len(fragment.reading.lines)} lines, but the content has {count}"
            yield FieldViolation(f"code_bank[{index}].reading", said)


def _is_read(fragment: sast_pb2.CodeFragment) -> bool:
    return fragment.HasField("reading") and not fragment.reading.unread


def _finding(finding: sast_pb2.Finding) -> Finding:
    return Finding(
        rule_id=finding.rule_id,
        cwe=finding.cwe,
        message=finding.message,
        location=_span(finding.location),
        trace=tuple(map(_span, finding.trace)),
        related=tuple(map(_span, finding.related)),
    )


def _span(location: sast_pb2.CodeLocation) -> Span:
    return Span(location.file, location.first_line, max(location.first_line, location.last_line))


def _draft(draft: evaluator_pb2.DraftVerdict) -> Draft:
    evidence = (
        Evidence(each.claim, each.file, each.first_line, each.last_line, each.commit, each.quote)
        for each in draft.evidence
    )
    return Draft(_VERDICTS[draft.verdict], draft.confidence, draft.justification, tuple(evidence))


def _fragment(fragment: sast_pb2.CodeFragment) -> Fragment:
    return Fragment(
        file=fragment.file,
        first_line=fragment.first_line,
        commit=fragment.commit,
        lines=_lines(fragment),
        total_lines=fragment.total_lines,
        reading=fragment.reading if fragment.HasField("reading") else None,
    )


def _lines(fragment: sast_pb2.CodeFragment) -> tuple[str, ...]:
    """Returns the lines; a newline after the last one is none of its own, a carriage return no part of a line."""
    lines = fragment.content.split("\n")
    expected = fragment.last_line - fragment.first_line + 1
    if not lines[-1] and len(lines) == expected + 1:
        lines.pop()
    return tuple(line.rstrip("\r") for line in lines)
