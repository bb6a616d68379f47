"""A finding and the code that was shown, to an opinion."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.offline_model.code_review.flagged import Flagged
from services.offline_model.code_review.opinion import Need, Opinion, undecided
from services.offline_model.code_review.origins import Scope
from services.offline_model.code_review.shown import Shown
from services.offline_model.code_review.weaknesses import BY_CWE, BY_RULE, WITHOUT_CWE, Judgement

# Ruff has copied Bandit's rules, with an S for the B.
_BANDIT = re.compile(r"\bB\d{3}\b|^S\d{3}$")


@dataclass(frozen=True)
class Finding:
    """What a prompt says of a finding."""

    rule: str
    cwe: str
    file: str
    first_line: int
    last_line: int


def review(finding: Finding, shown: Shown) -> Opinion:
    """Judges a finding from the code that was shown."""
    if not finding.file.endswith((".py", ".pyw")):
        return undecided("I read Python only; a larger model is needed for this file.")
    file = shown.file(finding.file)
    if file is None or finding.first_line not in file.lines:
        return undecided("The flagged lines were not shown.", Need("lines", finding.file, finding.first_line))
    judgement = _judgement(finding)
    if judgement is None:
        return undecided("I have no judgement for this kind of weakness; a larger model is needed.")
    statement = file.statement_at(finding.first_line)
    if statement is None:
        return undecided("The flagged lines do not parse as they were shown.")
    scope = Scope(file, file.function_at(finding.first_line))
    return judgement(Flagged(shown, file, finding.first_line, finding.last_line, statement, scope))


def _judgement(finding: Finding) -> Judgement | None:
    rule = _BANDIT.search(finding.rule)
    number = rule[0][1:] if rule else ""
    return BY_RULE.get(number) or BY_CWE.get(finding.cwe) or WITHOUT_CWE.get(number)
