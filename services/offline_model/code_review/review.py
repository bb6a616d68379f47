"""A finding and the code that was shown, to an opinion."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from services.offline_model.code_review.flagged import Flagged
from services.offline_model.code_review.opinion import FALSE_POSITIVE, Need, Opinion, undecided
from services.offline_model.code_review.program import TooManyWays
from services.offline_model.code_review.shown import Shown
from services.offline_model.code_review.weaknesses import BY_CWE, BY_RULE, WITHOUT_CWE, Kind

MAX_LINES = 60

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
    if shown.hides_lines:
        return undecided("Lines hold carriage returns, behind which there is code that I don't follow.")
    kind = kind_of(finding)
    if kind is None:
        return undecided("I have no judgement for this kind of weakness; a larger model is needed.")
    last = max(finding.first_line, min(finding.last_line, finding.first_line + MAX_LINES))
    statements = file.statements_at(finding.first_line, last)
    if not statements:
        return undecided("The flagged lines do not parse as they were shown.")
    if not file.is_parsed(finding.first_line, last):
        return undecided("Not all of the flagged lines parse as they were shown.")
    flagged = Flagged(shown, file, finding.first_line, last, statements, kind.weakness)
    try:
        opinion = kind.judge(flagged)
    except (TooManyWays, RecursionError):
        return undecided("There are too many ways to the flagged lines to follow.")
    if opinion.verdict == FALSE_POSITIVE and not all(one.is_understood for one in shown.python):
        return undecided("Lines were shown that do not parse; what they do I can't tell.")
    if opinion.verdict == FALSE_POSITIVE and _has_hidden_writes(file.function_at(finding.first_line)):
        return undecided("A name may be given another value here in a way that I don't follow.")
    return opinion


def _has_hidden_writes(function: ast.AST | None) -> bool:
    """Tells whether names of a function are also written by code that is not followed: from within, or as a text."""
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Nonlocal):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exec":
            return True
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and any(
            isinstance(part, ast.NamedExpr) for part in ast.walk(node)
        ):
            return True
    return False


def kind_of(finding: Finding) -> Kind | None:
    """Returns which judgement a finding calls for, if there is one."""
    rule = _BANDIT.search(finding.rule)
    number = rule[0][1:] if rule else ""
    return BY_RULE.get(number) or BY_CWE.get(finding.cwe) or WITHOUT_CWE.get(number)
