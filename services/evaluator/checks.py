"""The mechanical checks of a draft, which no model can talk its way around."""

from __future__ import annotations

import time

from services.evaluator.bank import NO_DEFINITION, CodeBank, SourceFile
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
    beside = False
    for index, evidence in enumerate(draft.evidence):
        citation = check_citation(index, evidence, finding, bank)
        flagged = finding.flagged_lines(evidence.file)
        cited |= citation.covers & flagged
        beside = beside or bool(citation.covers - flagged)
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
    if draft.verdict is Verdict.FALSE_POSITIVE and cited and not beside:
        problems += _check_supply(finding, bank)
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


def _check_supply(finding: Finding, bank: CodeBank) -> list[Problem]:
    """Finds that the values of the flagged lines come from lines that nobody cites, where those were read."""
    file = bank.file(finding.location.file)
    if file is None:
        return []
    flagged = finding.flagged_lines(file.path)
    names = frozenset[str]().union(*(file.lines[number].names for number in flagged if number in file.lines))
    first, last = file.definition_around(min(flagged))
    supplying = [
        number
        for number, line in sorted(file.lines.items())
        if number not in flagged
        and (number == first or line.sets & names)
        and line.names & names
        and (first <= number <= last or file.definition_around(number) == NO_DEFINITION)
    ]
    if not supplying:
        return []
    message = (
        f"{_shown(finding)} shows what is flagged, and not why it is harmless: cite the line that supplies or stops "
        f"its value, such as {file.path}:{supplying[-1]}."
    )
    return [Problem(WHOLE_DRAFT, Reason.SUPPLY_NOT_CITED, message)]


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
