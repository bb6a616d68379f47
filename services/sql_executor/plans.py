"""How much a statement may take to plan and to check: counted, and refused when it is too much.

The planner walks a statement without looking up: no timeout and no cancel request ends it. What a name stands for is
not put in its place (`fences.py`), so that a plan is about as large as its text; what can still multiply is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused

# Nodes of the tree as Postgres makes it of the text: some operators are written as several, with copies of an operand.
MAX_NODES: Final = 20_000
# Joins, sorts, groupings, windows, subqueries and whatever else may hold `work_mem`. Planning aggregates that sort is
# cubic in their number.
MAX_PARTS: Final = 100
# Bytes that sorts in aggregates may hold beside it.
MAX_HELD: Final = 64 << 20
# Postgres' own limit of the columns of a result.
MAX_COLUMNS: Final = 1664
# The columns of all relations, joins and results of a statement.
MAX_ALL_COLUMNS: Final = 40_000
# What the check may do, in a thousandth of a millisecond or so.
MAX_STEPS: Final = 300_000
_VISIT: Final = 45
# An aggregate that sorts spills what it holds only once there are too many rows for `work_mem`, however long they are:
# PG 18 counts 24 bytes for each. So many fit in the least `work_mem`, and their length is what is held beside it.
_LEAST_WORK_MEM: Final = 64 << 10
_SORTED_ROWS: Final = _LEAST_WORK_MEM // 24
_MOST_CUBED: Final = 20


def grouping_sets(groups: Iterable[pb.Node]) -> float:
    """Returns how many groupings a GROUP BY makes at once: its parts multiply."""
    return math.prod(map(_sets, groups))


def _sets(group: pb.Node) -> float:
    if group.WhichOneof("node") != "grouping_set":
        return 1
    content = group.grouping_set.content
    if group.grouping_set.kind == pb.GROUPING_SET_CUBE:
        return float(2.0 ** min(len(content), _MOST_CUBED))
    if group.grouping_set.kind == pb.GROUPING_SET_ROLLUP:
        return len(content) + 1
    return sum(map(_sets, content)) or 1


class Plan:
    """Counts what one statement takes to check and to plan; each method raises ToolRefused when it is too much."""

    def __init__(self) -> None:
        self._nodes = 0
        self._parts = 0.0
        self._held = 0.0
        self._steps = 0.0
        self._columns = 0
        # How often Postgres writes down what is being checked.
        self._copies = 1

    @property
    def parts(self) -> int:
        """The parts that may each hold `work_mem` at the same time; what is held beside it counts as some more."""
        return int(self._parts + self._held / _LEAST_WORK_MEM)

    def mark(self) -> tuple[int, float, float]:
        """Returns what has been counted so far, to go back there."""
        return self._nodes, self._parts, self._held

    def go_back(self, mark: tuple[int, float, float]) -> None:
        """Forgets what has been counted since, but for the work of the check."""
        self._nodes, self._parts, self._held = mark

    @contextmanager
    def copied(self, times: int) -> Iterator[None]:
        """Counts so often what is counted inside the context."""
        before, self._copies = self._copies, self._copies * times
        try:
            yield
        finally:
            self._copies = before

    def visit(self) -> None:
        """Counts a node of the text's own tree."""
        self.step(_VISIT)
        self._nodes += self._copies
        if self._nodes > MAX_NODES:
            raise ToolRefused(
                "too_large",
                "The query nests BETWEEN, or IN with a list of columns, too deep: Postgres repeats what stands left of "
                "them. Compute it in a subquery.",
            )

    def hold(self, parts: float = 1) -> None:
        """Counts parts that may hold memory."""
        self._parts += parts * self._copies
        if self._parts > MAX_PARTS:
            raise ToolRefused(
                "too_large",
                f"The query has more than {MAX_PARTS} joins, sorts, groupings, windows, subqueries and aggregates with "
                "DISTINCT or ORDER BY together, each of which takes memory; split it into several queries.",
            )

    def sort(self, length: float, rows: float) -> None:
        """Counts an aggregate that sorts so many rows of a length, in bytes."""
        self._held += length * min(rows, _SORTED_ROWS) * self._copies
        self.hold()
        if self._held > MAX_HELD:
            raise ToolRefused(
                "too_large",
                "Aggregates with DISTINCT or ORDER BY would hold values that are too long; cut them with left(…, 100).",
            )

    def list_columns(self, count: int, width: int = 0) -> None:
        """Counts columns before they are listed; `width` is how many the relation has that they are of."""
        if width > MAX_COLUMNS:
            raise ToolRefused(
                "too_large", f"A part of the query has more than {MAX_COLUMNS} columns; name those you need."
            )
        self._columns += count
        self.step(2 * count)
        if self._columns > MAX_ALL_COLUMNS:
            raise ToolRefused(
                "too_large",
                f"The parts of the query have more than {MAX_ALL_COLUMNS} columns together; name those you need in "
                "place of *.",
            )

    def step(self, count: float) -> None:
        """Counts work of the check itself."""
        self._steps += count
        if self._steps > MAX_STEPS:
            raise ToolRefused(
                "too_large", "The query has too many names and conditions to be checked; split it into several."
            )
