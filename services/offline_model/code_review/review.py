"""A finding and the code that was read, to an opinion.

Decided is what the flagged statement and the function around it show, in a file that was read whole, so that every
name in it can be resolved. All else is left for review, with what to read.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from services.offline_model.code_review.names import REACHES_NAMES, Module, parse_file
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Need, Opinion, undecided
from services.offline_model.code_review.request import ReviewRequest
from services.offline_model.code_review.rules import BY_CWE, BY_RULE, Flagged, Rule, evaluated
from services.offline_model.prompt_data import Finding

MAX_CLAIMS = 20
# The code executor cuts a line here.
MAX_LINE = 1000
# How a character is shown that would not show, or end a line for Python only.
_NOT_AS_WRITTEN = re.compile("<U\\+[0-9A-F]{4,}>|\N{REPLACEMENT CHARACTER}|[\r\f\v]")
_NOT_DEPLOYED = re.compile(r"(^|/)(tests?|testing|examples?|docs)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_BANDIT = re.compile(r"\bB(\d{3})\b|^S(\d{3})$")


def review(request: ReviewRequest) -> Opinion:
    """Judges a finding from the code that was read."""
    finding, file = request.finding, request.flagged_file
    if not finding.file.endswith((".py", ".pyw")):
        return undecided("I read Python only.")
    rule = rule_of(finding)
    if rule is None:
        return undecided("I have no rule for this kind of weakness.")
    if unread := file.first_unread:
        return undecided("The flagged file was not read whole.", Need("lines", finding.file, unread))
    if any(_NOT_AS_WRITTEN.search(line) or len(line) > MAX_LINE for line in file.lines.values()):
        return undecided("Lines hold characters that were not shown as they are, or were cut.")
    module = parse_file(finding.file, file.lines)
    if module is None:
        return undecided("The file does not parse as Python, as it was shown.")
    try:
        return _reviewed(finding, module, rule)
    except RecursionError:
        return undecided("The file is nested too deeply for me.")


def rule_of(finding: Finding) -> Rule | None:
    """Returns the rule for a kind of finding: by the scanner's rule, or by the weakness where no such rule is known."""
    numbered = _BANDIT.search(finding.rule)
    if numbered:
        return BY_RULE.get(numbered[1] or numbered[2])
    return BY_CWE.get(finding.cwe)


def _reviewed(finding: Finding, module: Module, rule: Rule) -> Opinion:
    statement = _statement_at(module, finding)
    if statement is None:
        return undecided("The flagged lines are not one statement.")
    opinion = rule(Flagged(module, statement))
    if opinion.verdict == TRUE_POSITIVE and _NOT_DEPLOYED.search(finding.file):
        return undecided(f"{opinion.why} But it stands among tests or examples; whether that matters I can't judge.")
    reaches = module.mentioned(REACHES_NAMES) - ({"eval", "exec"} if rule is evaluated else set())
    if opinion.verdict == FALSE_POSITIVE and reaches:
        return undecided(f"This file can give names other values unseen, by {', '.join(sorted(reaches))}.")
    if len(opinion.claims) > MAX_CLAIMS or any("`" in module.source(claim.node) for claim in opinion.claims):
        return undecided("What it rests on is too much to cite.")
    return opinion


def _statement_at(module: Module, finding: Finding) -> ast.stmt | None:
    """Returns the statement that the flagged lines are a part of, when it has its lines for itself."""
    around = [node for node in module.nodes if isinstance(node, ast.stmt) and node.lineno <= finding.first_line]
    around = [node for node in around if finding.last_line <= (node.end_lineno or node.lineno)]
    found: Any = max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
    if found is None:
        return None
    if hasattr(found, "body"):
        return found if finding.last_line < found.body[0].lineno else None
    lines = module.text.encode().split(b"\n")
    before, after = lines[found.lineno - 1][: found.col_offset], lines[found.end_lineno - 1][found.end_col_offset :]
    return None if before.strip() or after.split(b"#")[0].strip() else found
