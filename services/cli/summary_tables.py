"""What a batch of findings came to, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from services.cli.listing import Listing
from services.findings.investigation.batch_progress import COLOURS
from services.findings.investigation.scores import Scores
from services.findings.investigation.summary import Judged, Summary, share
from services.findings.sarif.outcome import Source, Verdict
from services.kit.text.printing import printable
from services.kit.text.words import several


def as_tables(summary: Summary) -> Group:
    """Returns a summary for a terminal."""
    parts: list[RenderableType] = [_findings(summary.judged), Text(), _cwes(summary), Text(), _totals(summary)]
    if summary.scores:
        parts += [Text(), _scores(summary.scores)]
    return Group(*parts)


def _findings(judged: Sequence[Judged]) -> Listing:
    table = Listing("verdict", "sure", "rule", "place", "why")
    for each in judged:
        outcome = each.outcome
        why = outcome.error or outcome.justification.split("\n", 1)[0]
        table.add(
            Text(outcome.verdict, style=COLOURS[outcome.verdict]),
            "" if outcome.confidence is None else f"{outcome.confidence:.2f}",
            each.finding.rule_id,
            each.place,
            why[:200],
        )
    return table


def _cwes(summary: Summary) -> Listing:
    table = Listing("weakness", "true", "false", "review")
    for cwe, counts in summary.by_cwe.items():
        table.add(cwe, *(str(counts[verdict]) for verdict in Verdict))
    return table


def _totals(summary: Summary) -> Text:
    tokens_in, tokens_out = summary.tokens
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary.verdicts.items())
    lines = [f"{several(len(summary.judged), 'finding')}: {counts}", f"{tokens_in + tokens_out:,} tokens"]
    lines += [
        f"{several(count, 'verdict')} by {decider}, under review still" for decider, count in summary.deciders.items()
    ]
    unusable = sum(bool(each.error) and each.source is Source.LOG for each in summary.outcomes)
    if failed := summary.failed - unusable:
        lines.append(f"{several(failed, 'run')} failed: --rerun-failed runs what failed again")
    if unusable:
        lines.append(f"{several(unusable, 'result')} can't be used: correct the log")
    if summary.stop_reasons:
        lines.append("ended by: " + ", ".join(f"{reason} ({n})" for reason, n in summary.stop_reasons.items()))
    if summary.skipped:
        lines.append("left out: " + ", ".join(f"{count} {reason}" for reason, count in summary.skipped.items()))
    return Text(printable("\n".join(lines)))


def _scores(scores: Scores) -> Text:
    lines = [
        f"ground truth: {scores.true_positives} true positives, {scores.false_positives} false positives, "
        f"{scores.true_negatives} true negatives, {scores.false_negatives} false negatives",
        f"precision {share(scores.precision)}, recall {share(scores.recall)}, F1 {share(scores.f1)}, "
        f"calibration error {share(scores.calibration_error)}",
        f"left for review: {scores.review_vulnerable} weaknesses, {scores.review_harmless} harmless "
        f"(recall {share(scores.recall_with_review)} when they count as not found)",
    ]
    if scores.unlabelled:
        lines.append(f"{scores.unlabelled} findings have no ground truth")
    if scores.unmatched_truth:
        lines.append("ground truth about no finding: " + ", ".join(scores.unmatched_truth[:5]))
    return Text(printable("\n".join(lines)))
