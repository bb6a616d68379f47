"""The mechanical checks of a draft, which no model can talk its way around."""

from __future__ import annotations

import time

from services.evaluator.bank import CodeBank
from services.evaluator.citations import Problem, Reason, check_citation
from services.evaluator.connections import Connections
from services.evaluator.draft import Draft, Finding, Verdict
from services.evaluator.metrics import CHECK_DURATION, PROBLEMS

WHOLE_DRAFT = -1


def check_draft(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    """Returns everything that is wrong with a draft: at most one problem for each claim, and those of the whole."""
    start = time.perf_counter()
    problems = [] if draft.verdict is Verdict.NEEDS_REVIEW else _check_whole(draft, finding, bank)
    connections = Connections(bank, finding.places)
    for index, claim in enumerate(draft.claims):
        problem = check_citation(index, claim, bank)
        if problem is None and not connections.reach(claim.span):
            problem = Problem(
                index,
                Reason.UNCONNECTED,
                f"{claim.cited} has no visible connection to {_shown(finding)}: cite the flagged code, the definition "
                "around it, or code that it calls or that calls it; fetch what lies between, if there is a connection.",
            )
        if problem is not None:
            problems.append(problem)
    for found in problems:
        PROBLEMS.labels(found.reason).inc()
    CHECK_DURATION.observe(time.perf_counter() - start)
    return problems


def _check_whole(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    problems = []
    if not draft.claims:
        message = f"{draft.verdict} needs at least one claim that cites code: say which lines show it."
        problems.append(Problem(WHOLE_DRAFT, Reason.NO_EVIDENCE, message))
    file = bank.file(finding.location.file)
    if file is None or file.missing(finding.location.first_line, finding.location.first_line):
        message = f"The flagged line {_shown(finding)} was never read: fetch it before settling on a verdict."
        problems.append(Problem(WHOLE_DRAFT, Reason.NOT_IN_CODE_BANK, message))
    return problems


def _shown(finding: Finding) -> str:
    return f"{finding.location.file}:{finding.location.first_line}"
