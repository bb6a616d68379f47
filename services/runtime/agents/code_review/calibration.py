"""Of which models the confidence in a verdict has been measured: without that it is a number that says nothing."""

from __future__ import annotations

from collections.abc import Collection


class Calibration:
    """The models whose stated confidence is about how often they are right."""

    def __init__(self, models: Collection[str]) -> None:
        self._models = frozenset(models)

    def covers(self, drafter: str, judge: str) -> bool:
        """Whether confidence says something of a verdict that one model drafted and the other let stand.

        Which verdicts stand, and so how many of them are right, depends on both.
        """
        return {drafter, judge} <= self._models
