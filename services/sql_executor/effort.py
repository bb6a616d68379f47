"""What a statement builds, and its work that nothing can interrupt: added up, and refused when it is too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from services.kit.tools.executor import ToolRefused
from services.sql_executor.costs import Cost, Kind
from services.sql_executor.sizes import Size, together

# All the values that one row of a statement may build, together.
MAX_BUILT: Final = 32_000_000
# How often a statement may repeat values from columns without a declared length.
MAX_COPIES: Final = 200
# The most that a row of a statement may do without looking up, in all: 10⁹ compared characters take about a second.
MAX_WORK: Final = 1_000_000_000
# How often a row may multiply, divide or raise numbers that may be long: once takes up to a tenth of a second. With a
# thousand digits it is some 50 µs.
MAX_LONG_STEPS: Final = 50
_LONG_STEP: Final = 1000


class Effort:
    """Counts the effort of one statement; each method raises ToolRefused when it is too much."""

    def __init__(self) -> None:
        self.built = Size()
        self._worked = 0.0
        self._long_steps = 0

    def build(self, size: Size) -> Size:
        """Counts a value that the statement builds, and returns its size."""
        self.built = together([self.built, size])
        if self.built.fixed > MAX_BUILT or self.built.stored + self.built.recursive > MAX_COPIES:
            raise ToolRefused(
                "too_large",
                "The query builds values that may get too long; cut texts with left(…, 100), and collect (string_agg, "
                "array_agg, json_agg) from fewer rows, for example from a subquery with LIMIT.",
            )
        return size

    def spend(self, shown: str, cost: Cost, sizes: Sequence[Size]) -> None:
        """Counts work that nothing can interrupt: between two calls in a row, the database does not look up either."""
        if cost.kind is Kind.CONSTANT:
            return
        steps = sum(size.read for size in sizes) * cost.reading
        if cost.kind is Kind.PRODUCT and len(sizes) > 1:
            steps += sizes[0].length * sizes[1].length * cost.step
        if cost.kind is Kind.DIGITS:
            self._multiply(shown, sizes)
        self._worked += steps
        if self._worked > MAX_WORK:
            raise ToolRefused(
                "too_large",
                f"{shown} would work on long values, which can't be interrupted; use a literal for one of them, or cut "
                "them with left(…, 1000).",
            )

    def _multiply(self, shown: str, sizes: Iterable[Size]) -> None:
        self._long_steps += any(size.fixed > _LONG_STEP for size in sizes)
        if self._long_steps > MAX_LONG_STEPS:
            raise ToolRefused(
                "too_large",
                f"{shown} works on numbers that may have very many digits, too often; cast them to double precision.",
            )
