"""How good the verdicts are, by the ground truth.

NEEDS_REVIEW is neither right nor wrong: it is counted on its own, and never as positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.findings.investigation.truth import Truth
from services.findings.sarif.outcome import Outcome, Verdict

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Verdicts of about the same confidence: how sure they were, and how often right."""

    low: float
    high: float
    count: int
    mean_confidence: float
    accuracy: float


@dataclass(frozen=True)
class Scores:
    """Confusion matrix over decided verdicts, and what follows from it; None where nothing was there to divide by.

    review_vulnerable, review_harmless: undecided findings, by what they are. recall_with_review: the share of all
    labelled weaknesses that was called one, the undecided among them counted as not found. calibration_error: expected
    calibration error over the bins.
    """

    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    review_vulnerable: int
    review_harmless: int
    unlabelled: int
    unmatched_truth: tuple[str, ...]
    bins: tuple[Bin, ...]

    @property
    def precision(self) -> float | None:
        """Of what was called a weakness, how much is one."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        """Of the decided weaknesses, how many were called one."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        return _share(2 * self.true_positives, 2 * self.true_positives + self.false_positives + self.false_negatives)

    @property
    def recall_with_review(self) -> float | None:
        """Recall when a weakness that was left undecided counts as not found."""
        return _share(self.true_positives, self.true_positives + self.false_negatives + self.review_vulnerable)

    @property
    def decided(self) -> int:
        """Labelled findings with a verdict."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def calibration_error(self) -> float | None:
        """Mean distance between confidence and accuracy, weighted by how many verdicts a bin has.

        Verdicts without a confidence are in no bin.
        """
        binned = sum(bin_.count for bin_ in self.bins)
        if not binned:
            return None
        return sum(bin_.count * abs(bin_.mean_confidence - bin_.accuracy) for bin_ in self.bins) / binned


def score(outcomes: Sequence[Outcome], truth: Truth) -> Scores:
    """Compares verdicts with the ground truth."""
    labelled = [
        (outcome, truth.labels[outcome.fingerprint]) for outcome in outcomes if outcome.fingerprint in truth.labels
    ]

    def count(verdict: Verdict, *, vulnerable: bool) -> int:
        return sum(outcome.verdict is verdict and label is vulnerable for outcome, label in labelled)

    decided = [
        (outcome.confidence, (outcome.verdict is Verdict.TRUE_POSITIVE) == label)
        for outcome, label in labelled
        if outcome.verdict is not Verdict.NEEDS_REVIEW and outcome.confidence is not None
    ]
    return Scores(
        true_positives=count(Verdict.TRUE_POSITIVE, vulnerable=True),
        false_positives=count(Verdict.TRUE_POSITIVE, vulnerable=False),
        true_negatives=count(Verdict.FALSE_POSITIVE, vulnerable=False),
        false_negatives=count(Verdict.FALSE_POSITIVE, vulnerable=True),
        review_vulnerable=count(Verdict.NEEDS_REVIEW, vulnerable=True),
        review_harmless=count(Verdict.NEEDS_REVIEW, vulnerable=False),
        unlabelled=len(outcomes) - len(labelled),
        unmatched_truth=truth.unmatched,
        bins=tuple(_bins(decided)),
    )


def _bins(decided: Sequence[tuple[float, bool]]) -> Iterable[Bin]:
    for number in range(BINS):
        inside = [(sure, right) for sure, right in decided if min(int(sure * BINS), BINS - 1) == number]
        if inside:
            yield Bin(
                low=number / BINS,
                high=(number + 1) / BINS,
                count=len(inside),
                mean_confidence=sum(sure for sure, _ in inside) / len(inside),
                accuracy=sum(right for _, right in inside) / len(inside),
            )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
