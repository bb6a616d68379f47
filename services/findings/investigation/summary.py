"""What a batch came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from signalbox.v1 import sast_pb2

from services.findings.investigation.scores import Scores, score
from services.findings.investigation.truth import Truth
from services.findings.sarif.outcome import Outcome, Source, Verdict
from services.findings.sarif.rules import Severity
from services.kit.confusion import Confusion

NO_CWE = "none"


@dataclass(frozen=True)
class Judged:
    """A finding and what came of it. severity: None where its log is not at hand."""

    finding: sast_pb2.Finding
    outcome: Outcome
    severity: Severity | None = None

    @property
    def place(self) -> str:
        """Where it is."""
        location = self.finding.location
        return f"{location.file}:{location.first_line}" if location.file else "(no place)"


@dataclass(frozen=True)
class Summary:
    """Everything about a batch. skipped: results of the log that are no findings, by reason."""

    repository: str
    commit: str
    judged: tuple[Judged, ...]
    skipped: dict[str, int]
    scores: Scores | None = None

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes, in the log's order."""
        return [judged.outcome for judged in self.judged]

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many findings have each verdict."""
        counts = Counter(outcome.verdict for outcome in self.outcomes)
        return {verdict: counts[verdict] for verdict in Verdict}

    @property
    def stop_reasons(self) -> dict[str, int]:
        """How many runs ended by each reason."""
        return dict(Counter(o.stop_reason for o in self.outcomes if o.stop_reason).most_common())

    @property
    def failed(self) -> int:
        """Findings whose run failed."""
        return sum(bool(outcome.error) for outcome in self.outcomes)

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens."""
        return sum(o.input_tokens for o in self.outcomes), sum(o.output_tokens for o in self.outcomes)

    @property
    def by_cwe(self) -> dict[str, dict[Verdict, int]]:
        """Verdicts by weakness, the most frequent first."""
        counts: dict[str, Counter[Verdict]] = {}
        for judged in self.judged:
            counts.setdefault(judged.finding.cwe or NO_CWE, Counter())[judged.outcome.verdict] += 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
        return {cwe: {verdict: count[verdict] for verdict in Verdict} for cwe, count in ordered}

    @property
    def by_severity(self) -> dict[Severity, dict[Verdict, int]]:
        """Verdicts by severity, the worst first."""
        counts = Counter((judged.severity, judged.outcome.verdict) for judged in self.judged)
        present = {severity for severity, _ in counts}
        return {
            severity: {verdict: counts[severity, verdict] for verdict in Verdict}
            for severity in Severity
            if severity in present
        }

    @property
    def deciders(self) -> dict[str, int]:
        """How many verdicts came of something else than a language model, by what that was."""
        return dict(Counter(o.decided_by for o in self.outcomes if o.decided_by))

    def has(self, verdicts: Iterable[Verdict]) -> bool:
        """Whether any finding has one of the verdicts."""
        return any(self.verdicts[verdict] for verdict in verdicts)


def scores_of(judged: Sequence[Judged], truth: Truth) -> Scores:
    """Compares what came of findings with the ground truth; what a person decided says nothing about the models."""
    rules = {each.finding.fingerprint: each.finding.rule_id for each in judged}
    return score([each.outcome for each in judged if each.outcome.source is not Source.PERSON], truth, rules)


def as_data(summary: Summary) -> dict[str, Any]:
    """Returns a summary for another program."""
    tokens_in, tokens_out = summary.tokens
    return {
        "repository": summary.repository,
        "commit": summary.commit,
        "findings": len(summary.judged),
        "verdicts": {verdict.value: count for verdict, count in summary.verdicts.items()},
        "decided_by": summary.deciders,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "stop_reasons": summary.stop_reasons,
        "tokens": {"input": tokens_in, "output": tokens_out, "total": tokens_in + tokens_out},
        "by_cwe": {cwe: {v.value: n for v, n in counts.items()} for cwe, counts in summary.by_cwe.items()},
        "scores": scores_data(summary.scores) if summary.scores else None,
        "results": [_result_data(judged) for judged in summary.judged],
    }


def scores_data(scores: Scores) -> dict[str, Any]:
    """Returns scores for another program."""
    return {
        **confusion_data(scores),
        "by_rule": {rule: confusion_data(confusion) for rule, confusion in scores.by_rule.items()},
        "calibration_error": scores.calibration_error,
        "calibration": [asdict(bin_) for bin_ in scores.bins],
        "unlabelled": scores.unlabelled,
        "unmatched_truth": list(scores.unmatched_truth),
    }


def confusion_data(confusion: Confusion) -> dict[str, Any]:
    """Returns a confusion matrix and its ratios for another program."""
    return {
        "confusion": {
            "true_positives": confusion.true_positives,
            "false_positives": confusion.false_positives,
            "true_negatives": confusion.true_negatives,
            "false_negatives": confusion.false_negatives,
        },
        "precision": confusion.precision,
        "recall": confusion.recall,
        "f1": confusion.f1,
        "needs_review": {"vulnerable": confusion.review_vulnerable, "harmless": confusion.review_harmless},
        "recall_with_review": confusion.recall_with_review,
    }


def _result_data(judged: Judged) -> dict[str, Any]:
    location = judged.finding.location
    return {
        "rule_id": judged.finding.rule_id,
        "cwe": judged.finding.cwe,
        "severity": judged.severity.value if judged.severity else None,
        "message": judged.finding.message,
        "file": location.file,
        "first_line": location.first_line,
        "last_line": location.last_line,
        **asdict(judged.outcome),
    }


def share(value: float | None) -> str:
    """A ratio in words; n/a when there was nothing to divide by."""
    return "n/a" if value is None else f"{value:.2f}"
