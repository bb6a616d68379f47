"""The mechanical checks of a draft, which no model can talk its way around."""

from __future__ import annotations

import time

from services.evaluator.bank import CodeBank, SourceFile
from services.evaluator.citations import Problem, Reason, check_citation
from services.evaluator.code_lines import UNSURE_KIND
from services.evaluator.connections import Connections
from services.evaluator.draft import Draft, Finding, Verdict
from services.evaluator.metrics import CHECK_DURATION, PROBLEMS

WHOLE_DRAFT = -1


def check_draft(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    """Returns everything that is wrong with a draft: at most one problem for each claim, and those of the whole."""
    start = time.perf_counter()
    settled = draft.verdict is not Verdict.NEEDS_REVIEW
    problems = _check_whole(draft, finding, bank) if settled else []
    connections = Connections(bank, finding.places)
    cited: set[int] = set()
    for index, evidence in enumerate(draft.evidence):
        citation = check_citation(index, evidence, finding, bank)
        cited |= citation.covers & finding.flagged_lines(evidence.file)
        problem = citation.problem
        if problem is None and not connections.reach(evidence.span):
            problem = Problem(
                index,
                Reason.UNCONNECTED,
                f"{evidence.cited} has no visible connection to {_shown(finding)}: cite the flagged code, the "
                "definition around it, or code that it calls or that calls it; fetch what lies between, if there is "
                "a connection.",
            )
        if problem is not None:
            problems.append(problem)
    if settled and draft.evidence and not cited and _flags_code(finding, bank):
        message = f"No claim quotes the flagged code, {_shown(finding)}: a verdict is about that line before all."
        problems.append(Problem(WHOLE_DRAFT, Reason.FLAGGED_NOT_CITED, message))
    for found in problems:
        PROBLEMS.labels(found.reason).inc()
    CHECK_DURATION.observe(time.perf_counter() - start)
    return problems


def _check_whole(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    problems = []
    if not draft.evidence:
        message = f"{draft.verdict} needs at least one claim that cites code: say which lines show it."
        problems.append(Problem(WHOLE_DRAFT, Reason.NO_EVIDENCE, message))
    file = bank.file(finding.location.file)
    if file is None or _unread(finding, file):
        message = f"The flagged code {_shown(finding)} was not read in full: fetch it before settling on a verdict."
        problems.append(Problem(WHOLE_DRAFT, Reason.NOT_IN_CODE_BANK, message))
    return problems


def _unread(finding: Finding, file: SourceFile) -> list[int]:
    """Returns the flagged lines that were not read; the first counts even when the file has no such line."""
    flagged = finding.flagged_lines(file.path)
    first = min(flagged)
    return file.missing(first, max(first, min(max(flagged), file.total_lines)))


def _flags_code(finding: Finding, bank: CodeBank) -> bool:
    """Tells whether there may be code to quote on the flagged lines, as far as they were read."""
    file = bank.file(finding.location.file)
    lines = file.lines if file else {}
    flagged = (lines[number] for number in finding.flagged_lines(finding.location.file) if number in lines)
    # What nobody can tell from a comment may be the code that the finding is about: no verdict stands without it.
    return any(line.carries or line.unread or UNSURE_KIND in line.kinds for line in flagged)


def _shown(finding: Finding) -> str:
    return f"{finding.location.file}:{finding.location.first_line}"
