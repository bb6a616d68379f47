"""How good the verdicts are, by the ground truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from services.findings.investigation.truth import Truth
from services.findings.sarif.outcome import Outcome, Verdict
from services.kit.confusion import Confusion

BINS = 10
_CALLED = {Verdict.TRUE_POSITIVE: True, Verdict.FALSE_POSITIVE: False}


@dataclass(frozen=True)
class Bin:
    """Verdicts of about the same confidence: how sure they were, and how often right."""

    low: float
    high: float
    count: int
    mean_confidence: float
    accuracy: float


@dataclass(frozen=True)
class Scores(Confusion):
    """Confusion matrix over decided verdicts, for all and by rule of the analyser, and how well confidence fits.

    calibration_error: expected calibration error over the bins.
    """

    by_rule: Mapping[str, Confusion] = field(default_factory=dict)
    unlabelled: int = 0
    unmatched_truth: tuple[str, ...] = ()
    bins: tuple[Bin, ...] = ()

    @property
    def calibration_error(self) -> float | None:
        """Mean distance between confidence and accuracy, weighted by how many verdicts a bin has.

        Verdicts without a confidence are in no bin.
        """
        binned = sum(bin_.count for bin_ in self.bins)
        if not binned:
            return None
        return sum(bin_.count * abs(bin_.mean_confidence - bin_.accuracy) for bin_ in self.bins) / binned


def score(outcomes: Sequence[Outcome], truth: Truth, rules: Mapping[str, str] | None = None) -> Scores:
    """Compares verdicts with the ground truth. rules: of the analyser, by fingerprint."""
    labelled = [
        (outcome, truth.labels[outcome.fingerprint]) for outcome in outcomes if outcome.fingerprint in truth.labels
    ]
    by_rule: dict[str, Confusion] = {}
    for outcome, label in labelled:
        rule = (rules or {}).get(outcome.fingerprint, "")
        one = Confusion.of(vulnerable=label, called_vulnerable=_CALLED.get(outcome.verdict))
        by_rule[rule] = by_rule.get(rule, Confusion()) + one
    decided = [
        (outcome.confidence, (outcome.verdict is Verdict.TRUE_POSITIVE) == label)
        for outcome, label in labelled
        if outcome.verdict is not Verdict.NEEDS_REVIEW and outcome.confidence is not None
    ]
    total = sum(by_rule.values(), Confusion())
    return Scores(
        **asdict(total),
        by_rule=dict(sorted(by_rule.items(), key=lambda each: (-each[1].labelled, each[0]))),
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
