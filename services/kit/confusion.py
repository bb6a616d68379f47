"""Verdicts against the truth: counts, and what follows from them.

A verdict that was left to a person is neither right nor wrong: it is counted on its own, and never as positive.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix over decided verdicts, and its ratios; None where nothing was there to divide by.

    review_vulnerable, review_harmless: undecided findings, by what they are.
    """

    true_positives: int = 0
    false_positives: int = 0
    true_negatives: int = 0
    false_negatives: int = 0
    review_vulnerable: int = 0
    review_harmless: int = 0

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.true_negatives + other.true_negatives,
            self.false_negatives + other.false_negatives,
            self.review_vulnerable + other.review_vulnerable,
            self.review_harmless + other.review_harmless,
        )

    @classmethod
    def of(cls, *, vulnerable: bool, called_vulnerable: bool | None, count: int = 1) -> Confusion:
        """Returns the matrix of as many alike; called_vulnerable: None where that was left to a person."""
        if called_vulnerable is None:
            return cls(review_vulnerable=count) if vulnerable else cls(review_harmless=count)
        if called_vulnerable:
            return cls(true_positives=count) if vulnerable else cls(false_positives=count)
        return cls(false_negatives=count) if vulnerable else cls(true_negatives=count)

    @property
    def decided(self) -> int:
        """Labelled findings with a verdict."""
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def labelled(self) -> int:
        """Findings whose truth is known."""
        return self.decided + self.review_vulnerable + self.review_harmless

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


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
