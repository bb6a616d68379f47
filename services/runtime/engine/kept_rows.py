"""Rows of runs that are followed: whoever reads a run step by step, or page by page, reads each row once.

A row of a checkpoint is never another, but when retention removes those before it: who reads on sees whether the first
and the last of those that are kept are still there, and begins anew where they are not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol

from services.runtime.engine.changes import History

Row = dict[str, Any]
# Of all runs, as they are stored; a run whose rows are larger is read anew each time.
MOST_BYTES: Final = 8 * 1024 * 1024


class RunRows:
    """The rows of a run, oldest first, and what its values are put together from."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.rows: list[Row] = []
        self.by_id: dict[str, Row] = {}
        self.history = History(serde, ())
        self.size_bytes = 0

    @property
    def ends(self) -> list[str]:
        """The ids of the first and the last checkpoint."""
        return [self.rows[0]["checkpoint_id"], self.rows[-1]["checkpoint_id"]]

    def add(self, later: Iterable[Row]) -> None:
        """Adds rows that have been written since, as far as they are not there already: several may read at once."""
        last = self.rows[-1] if self.rows else None
        new = [row for row in later if last is None or _place(row) > _place(last)]
        self.rows += new
        self.by_id |= {row["checkpoint_id"]: row for row in new}
        self.history.add(row["changes"] for row in new)
        self.size_bytes += sum(len(row["body"]) + len(row["changes"]) for row in new)


class KeptRows:
    """The rows of the runs that were read last, as many as there is room for."""

    def __init__(self, serde: SerializerProtocol, *, most_bytes: int = MOST_BYTES) -> None:
        self._serde = serde
        self._most_bytes = most_bytes
        self._runs: OrderedDict[str, RunRows] = OrderedDict()

    def of(self, run_id: str) -> RunRows | None:
        """Returns what is known of a run."""
        return self._runs.get(run_id)

    def read_on(self, run_id: str, known: RunRows, found: Sequence[Row]) -> RunRows | None:
        """Returns a run's rows with those behind `known`; None where some of these are gone."""
        if len([row for row in found if row["known"]]) < len(set(known.ends)):
            self._runs.pop(run_id, None)
            return None
        known.add(row for row in found if not row["known"])
        self._keep(run_id, known)
        return known

    def read_anew(self, run_id: str, rows: Sequence[Row]) -> RunRows:
        """Returns all rows of a run."""
        made = RunRows(self._serde)
        made.add(rows)
        if rows:
            self._keep(run_id, made)
        return made

    def _keep(self, run_id: str, rows: RunRows) -> None:
        self._runs[run_id] = rows
        self._runs.move_to_end(run_id)
        while self._runs and sum(each.size_bytes for each in self._runs.values()) > self._most_bytes:
            self._runs.popitem(last=False)


def _place(row: Mapping[str, Any]) -> tuple[int, str]:
    return row["ordinal"], row["checkpoint_id"]
