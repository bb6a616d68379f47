"""How good and how sure the offline reviewer's verdicts are, on findings that no rule of it was written on.

Each verdict is drafted, and judged by the evaluator's skill; what the judge refuses is left for review.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from services.findings.investigation.scores import Scores, score
from services.findings.investigation.summary import share
from services.findings.investigation.truth import Truth
from services.findings.sarif.outcome import Outcome, Verdict
from services.offline_model.code_review.review import Finding, review
from services.offline_model.code_review.shown import Shown
from services.offline_model.conversation import Conversation
from services.offline_model.skills.judge_verdict import judge_verdict
from tests.bench.labelled_findings import WEAKNESSES, Labelled, labelled_findings

FINDINGS = 1100
SEED = 20_260
MOST = 0.10
PATH = "app/handler.py"


@dataclass(frozen=True)
class Measured:
    """The scores, and the findings that were judged wrongly."""

    scores: Scores
    wrong: list[tuple[Labelled, Verdict]]


def measure(count: int = FINDINGS, seed: int = SEED, weakness: str = "") -> Measured:
    """Judges findings, of one weakness if it is given, and compares with the truth."""
    outcomes, labels, wrong = list[Outcome](), dict[str, bool](), list[tuple[Labelled, Verdict]]()
    for number, finding in enumerate(labelled_findings(count, seed)):
        if weakness not in ("", finding.cwe):
            continue
        outcome = _outcome(f"f{number}", finding)
        outcomes.append(outcome)
        labels[outcome.fingerprint] = finding.vulnerable
        right = Verdict.TRUE_POSITIVE if finding.vulnerable else Verdict.FALSE_POSITIVE
        if outcome.verdict not in (right, Verdict.NEEDS_REVIEW):
            wrong.append((finding, outcome.verdict))
    return Measured(score(outcomes, Truth(labels, ())), wrong)


def _outcome(fingerprint: str, finding: Labelled) -> Outcome:
    lines = dict(enumerate(finding.code.split("\n"), start=1))
    shown = Shown()
    shown.add(PATH, lines)
    opinion = review(Finding(finding.rule, finding.cwe, PATH, finding.line, finding.line), shown)
    case = {
        "task": "critique",
        "finding": {
            "rule": finding.rule,
            "cwe": finding.cwe,
            "file": PATH,
            "first_line": finding.line,
            "last_line": finding.line,
        },
        "draft": {"verdict": opinion.verdict, "confidence": opinion.confidence},
        "code_bank": [{"file": PATH, "code": [f"{number} | {text}" for number, text in lines.items()]}],
    }
    answer = judge_verdict(Conversation(case, (), (), must_call=False))
    approved = json.loads(answer.text)["outcome"] == "approved"
    verdict = Verdict(opinion.verdict) if approved else Verdict.NEEDS_REVIEW
    return Outcome(fingerprint, verdict, opinion.confidence if approved else None, opinion.justification)


def main() -> None:
    """Prints the scores, of each weakness and of all."""
    table = Table(title=f"Verdicts on {FINDINGS} labelled findings that no rule was written on")
    headings = ("decided", "precision", "recall", "called harmless wrongly", "left for review", "calibration error")
    for heading in ("weakness", *headings):
        table.add_column(heading, justify="right")
    for weakness in WEAKNESSES:
        table.add_row(weakness, *_row(measure(weakness=weakness).scores))
    table.add_section()
    table.add_row("all", *_row(measure().scores))
    console = Console(file=sys.stdout, width=120)
    console.print(table)
    console.print(f"The calibration error of all may be {MOST} at most.")


def _row(scores: Scores) -> list[str]:
    left = str(scores.review_vulnerable + scores.review_harmless)
    sure = f"{scores.calibration_error or 0.0:.3f}"
    return [str(scores.decided), share(scores.precision), share(scores.recall), str(scores.false_negatives), left, sure]


if __name__ == "__main__":
    main()
