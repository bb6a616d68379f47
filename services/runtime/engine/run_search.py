"""Runs that fit a filter, newest first, page by page.

By labels, runs are found by the entries of one of them, the rarest there, and the rest of the filter is tried on what
is read: one page looks at so many runs at most, however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.search import NEWEST, statement

LOOKED_AT = 2_000
EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# Where a page ends: its last run's time of creation and id.
Place = tuple[datetime, str]


@dataclass(frozen=True)
class RunFilter:
    """Which runs; None and empty are all. `subject` is whose runs they are."""

    agent: str | None = None
    state: RunState | None = None
    outcome: Outcome | None = None
    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundRuns:
    """A page of runs, without input and output; `after` is where the next begins, None on the last."""

    runs: list[RunRecord]
    after: Place | None


class RunSearch:
    """Looks for runs."""

    def __init__(self, pool: AsyncConnectionPool[Any], *, looked_at: int = LOOKED_AT) -> None:
        self._pool = pool
        self._looked_at = looked_at

    async def page(self, caller: Caller, wanted: RunFilter, *, limit: int, after: Place | None = None) -> FoundRuns:
        """Returns up to `limit` runs that the caller may see behind a place.

        By labels fewer, where what one page looks at has no more.
        """
        is_operator = ROLE_OPERATOR in caller.roles
        if wanted.subject is not None and not is_operator and wanted.subject != caller.subject:
            return FoundRuns([], None)
        subject = wanted.subject if wanted.subject is not None or is_operator else caller.subject
        parameters = {
            "any_subject": subject is None,
            "subject": subject,
            "agent": wanted.agent,
            "state": wanted.state,
            "outcome": wanted.outcome,
            "thread_id": wanted.thread_id,
            "limit": limit + 1,
        }
        if wanted.labels:
            return await self._labelled(wanted, parameters, after)
        before_created, before_run_id = after or (None, None)
        place = {"before_created": before_created, "before_run_id": before_run_id}
        rows = await self._rows(
            query("list_runs"), {**parameters, **place, "since": wanted.since, "until": wanted.until}
        )
        runs = list(map(RunRecord.of, rows))
        return _page(runs, limit, None)

    async def _labelled(self, wanted: RunFilter, parameters: Mapping[str, Any], after: Place | None) -> FoundRuns:
        limit = parameters["limit"] - 1
        most = max(self._looked_at, limit + 1)
        before_created, before_run_id = after or (EVER[1], NEWEST)
        source = "entries_of_label" if parameters["any_subject"] else "entries_of_label_and_caller"
        rows = await self._rows(
            statement("labelled_runs", source),
            {
                **parameters,
                "labels": orjson.dumps(dict(wanted.labels)).decode(),
                "since": wanted.since or EVER[0],
                "until": wanted.until or EVER[1],
                "before_created": before_created,
                "before_run_id": before_run_id,
                "most": most,
            },
        )
        looked = rows[0]
        last = None if looked["looked_at"] < most else (looked["last_created"], str(looked["last_run_id"]))
        return _page([RunRecord.of(row) for row in rows if row["run_id"] is not None], limit, last)

    async def _rows(self, text: Any, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(text, parameters)
            rows: list[dict[str, Any]] = await cursor.fetchall()
        return rows


def _page(runs: list[RunRecord], limit: int, after: Place | None) -> FoundRuns:
    """Returns a page of runs, of which one more says that there are more; else it goes on `after`, if anywhere."""
    if len(runs) > limit:
        after = runs[limit - 1].created_at, runs[limit - 1].run_id
    return FoundRuns(runs[:limit], after)
