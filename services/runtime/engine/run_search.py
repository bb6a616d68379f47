"""Runs that fit a filter, newest first, page by page.

What narrows most decides by which index they are read, of labels the rarest. The rest of the filter is tried on what
is read: one page looks at so many runs at most, however many there are. Words that are in many runs are found that way;
where that fills no page, those that are in few are found by their index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, LiteralString

import orjson
from psycopg import sql
from psycopg.errors import QueryCanceled
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.search import NEWEST, statement

LOOKED_AT = 2_000
ID_DIGITS = 32
EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# By what runs are looked for and in which states, in order of how much that narrows; where none fits, by time.
_FEW = frozenset({RunState.AWAITING_INPUT, RunState.FAILED, RunState.CANCELLED, RunState.NEEDS_REVIEW})
_SOURCES: tuple[tuple[LiteralString, set[str], frozenset[RunState]], ...] = (
    ("runs_of_thread", {"subject", "thread_id"}, frozenset()),
    ("runs_under_way", {"state"}, frozenset({RunState.PENDING, RunState.RUNNING})),
    ("runs_of_caller", {"subject"}, frozenset()),
    ("runs_of_state", {"state"}, _FEW),
    ("runs_of_agent", {"agent"}, frozenset()),
)
# What the planner takes for a frequent word would be looked for in all there are. Of a word that is in each of ten
# million runs the index has as many entries, which are gone through before the first is told.
_BY_INDEX: LiteralString = "SET LOCAL enable_seqscan = off; SET LOCAL statement_timeout = '500ms'"
# Where a page ends: its last run's time of creation and id.
Place = tuple[datetime, str]


@dataclass(frozen=True)
class RunFilter:
    """Which runs; None and empty are all.

    `subject` is whose runs they are; each of `words` begins a word of title or labels; `id_prefix` is the beginning of
    the id in hexadecimal digits.
    """

    agent: str | None = None
    state: RunState | None = None
    outcome: Outcome | None = None
    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[str] = ()
    id_prefix: str = ""


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

        Fewer, where what one page looks at has no more.
        """
        is_operator = ROLE_OPERATOR in caller.roles
        if wanted.subject is not None and not is_operator and wanted.subject != caller.subject:
            return FoundRuns([], None)
        subject = wanted.subject if wanted.subject is not None or is_operator else caller.subject
        source, by = _source_of(wanted, subject)
        # Where the source is all of the filter, what it reads is the page.
        most = limit + 1 if by else max(self._looked_at, limit + 1)
        before_created, before_run_id = after or (EVER[1], NEWEST)
        parameters = {
            "subject": subject,
            "agent": wanted.agent,
            "state": wanted.state,
            "outcome": wanted.outcome,
            "thread_id": wanted.thread_id,
            "labels": orjson.dumps(dict(wanted.labels)).decode(),
            "words": list(wanted.words),
            "first_id": wanted.id_prefix.ljust(ID_DIGITS, "0"),
            "last_id": wanted.id_prefix.ljust(ID_DIGITS, "f"),
            "since": wanted.since or EVER[0],
            "until": wanted.until or EVER[1],
            "before_created": before_created,
            "before_run_id": before_run_id,
            "most": most,
            "limit": limit + 1,
        }
        found = await self._page(source, parameters)
        if wanted.words and not wanted.id_prefix and found.after is not None and len(found.runs) < limit:
            run_ids = await self._with_words(wanted.words)
            if run_ids is not None:
                given = {"run_ids": run_ids, "most": self._looked_at}
                return await self._page(statement("matching_runs", "runs_given"), {**parameters, **given})
        return found

    async def _page(self, source: sql.Composed, parameters: Mapping[str, Any]) -> FoundRuns:
        rows = await self._rows(source, parameters)
        looked, limit = rows[0], parameters["limit"] - 1
        last = None
        if looked["looked_at"] >= parameters["most"]:
            last = looked["last_created"], str(looked["last_run_id"])
        return _page([RunRecord.of(row) for row in rows if row["run_id"] is not None], limit, last)

    async def _with_words(self, words: Sequence[str]) -> list[str] | None:
        """Returns all runs with some words; None where they are more than a page looks at, or take too long to find."""
        given = {"words": list(words), "most": self._looked_at}
        try:
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(_BY_INDEX)
                cursor = connection.cursor()
                await cursor.execute(query("runs_with_words"), given)
                [(run_ids,)] = await cursor.fetchall()
        except QueryCanceled:
            return None
        return run_ids if run_ids is not None and len(run_ids) < self._looked_at else None

    async def _rows(self, text: Any, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(text, parameters)
            rows: list[dict[str, Any]] = await cursor.fetchall()
        return rows


def _source_of(wanted: RunFilter, subject: str | None) -> tuple[sql.Composed, bool]:
    """Returns the statement by what narrows most and has an index, and whether that is all of the filter."""
    given = {
        "subject": subject, "agent": wanted.agent, "state": wanted.state, "outcome": wanted.outcome,
        "thread_id": wanted.thread_id, "labels": wanted.labels, "words": wanted.words, "id_prefix": wanted.id_prefix,
    }  # fmt: skip
    names = {name for name, value in given.items() if value}
    if wanted.id_prefix:
        return statement("matching_runs", "runs_of_ids"), False
    if wanted.labels:
        entries = "entries_of_label" if subject is None else "entries_of_label_and_caller"
        return sql.SQL(query("matching_runs")).format(source=statement("entries_of_rarest_label", entries)), False
    for source, by, states in _SOURCES:
        if by <= names and (not states or wanted.state in states):
            return statement("matching_runs", source), by == names
    return statement("matching_runs", "runs_by_time"), not names


def _page(runs: list[RunRecord], limit: int, after: Place | None) -> FoundRuns:
    """Returns a page of runs, of which one more says that there are more; else it goes on `after`, if anywhere."""
    if len(runs) > limit:
        after = runs[limit - 1].created_at, runs[limit - 1].run_id
    return FoundRuns(runs[:limit], after)
