"""How large the plan of a statement gets, and how much work its check is: added up, and refused when it is too much.

The planner walks the whole tree of a statement without looking up: no timeout and no cancel request ends it. It puts
the expression of a column in the place of each name of that column, in one subquery after the other, so that a few
lines grow to millions of nodes. What a name stands for is therefore counted wherever the name is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused

# Nodes of the tree that the planner walks, once every column has been replaced by its expression.
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
VISIT: Final = 45
# What reading a table is to the planner, with the caller's filter on it and the row-level security behind that.
TABLE_NODES: Final = 60
# An aggregate that sorts spills what it holds only once there are too many rows for `work_mem`, however long they are:
# PG 18 counts 24 bytes for each. So many fit in the least `work_mem`, and their length is what is held beside it.
_LEAST_WORK_MEM: Final = 64 << 10
_SORTED_ROWS: Final = _LEAST_WORK_MEM // 24
# What a weight is cut to: more than any statement may have, and little enough to be added up exactly.
_HEAVIEST: Final = 1e9
_MOST_CUBED: Final = 20


class Weight(NamedTuple):
    """What planning something takes: nodes that are walked, and parts of the plan that may each hold `work_mem`.

    `held` are bytes that sorts hold beside it.
    """

    nodes: float = 1
    parts: float = 0
    held: float = 0


def grouped(groups: Iterable[pb.Node]) -> Weight:
    """Returns the weight of a GROUP BY: each set of columns that it groups by has all of them. Its parts multiply."""
    listed = list(groups)
    return Weight(sum(map(_leaves, listed)) * (math.prod(map(_sets, listed)) - 1))


def _leaves(group: pb.Node) -> int:
    return 1 + sum(map(_leaves, group.grouping_set.content))


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
        self._spent = [0.0, 0.0, 0.0]
        # What names of WITH queries stand for, which has been counted where the WITH query is.
        self._elsewhere = [0.0, 0.0, 0.0]
        self._steps = 0.0
        self._columns = 0

    @property
    def parts(self) -> int:
        """The parts that may each hold `work_mem` at the same time; what is held beside it counts as some more."""
        return int(self._spent[1] + self._spent[2] / _LEAST_WORK_MEM)

    def mark(self) -> tuple[Weight, Weight]:
        """Returns what has been counted so far: to know later what came to it, or to go back there."""
        return Weight(*self._spent), Weight(*self._elsewhere)

    def since(self, mark: tuple[Weight, Weight]) -> Weight:
        """Returns what has been counted since, with what stands behind it in WITH queries."""
        return Weight(
            *(
                min(spent - before + elsewhere - behind, _HEAVIEST)
                for spent, elsewhere, before, behind in zip(self._spent, self._elsewhere, *mark, strict=True)
            )
        )

    def go_back(self, mark: tuple[Weight, Weight]) -> None:
        """Forgets what has been counted since, but for the work of the check."""
        self._spent, self._elsewhere = list(mark[0]), list(mark[1])

    def visit(self) -> None:
        """Counts a node of the text's own tree."""
        self.step(VISIT)
        self._spent[0] += 1

    def take(self, weight: Weight, times: float = 1) -> None:
        """Counts what stands behind a name, or what is planned once more."""
        for place, amount in enumerate(weight):
            self._spent[place] += min(amount * times, _HEAVIEST)
        self._check()

    def refer(self, weight: Weight) -> None:
        """Notes a WITH query that is read: its weight has been counted, but not where what reads it is repeated."""
        for place, amount in enumerate(weight):
            self._elsewhere[place] += amount

    def hold(self, parts: int = 1) -> None:
        """Counts parts that may hold memory."""
        self._spent[1] += parts
        self._check()

    def sort(self, length: float, rows: float) -> None:
        """Counts an aggregate that sorts so many rows of a length, in bytes."""
        self._spent[2] += min(length * min(rows, _SORTED_ROWS), _HEAVIEST)
        self.hold()

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
        self._check()

    def _check(self) -> None:
        if self._spent[0] > MAX_NODES:
            raise ToolRefused(
                "too_large",
                "The query repeats expressions too often: each name of a column counts as the expression behind it. "
                "Compute long expressions in a CTE with AS MATERIALIZED, or use their columns less often.",
            )
        if self._spent[1] > MAX_PARTS:
            raise ToolRefused(
                "too_large",
                f"The query has more than {MAX_PARTS} joins, sorts, groupings, windows, subqueries and aggregates with "
                "DISTINCT or ORDER BY together, each of which takes memory; split it into several queries.",
            )
        if self._spent[2] > MAX_HELD:
            raise ToolRefused(
                "too_large",
                "Aggregates with DISTINCT or ORDER BY would hold values that are too long; cut them with left(…, 100).",
            )
