"""Decisions of many runs: those that fit, page by page, and how many there are by rule.

They are in the order of the ledger's key, the newest run's first, so that every page begins where the one before it
ended, however long the ledger is. What narrows most decides by which index they are read: a caller's runs or those of
a correlation id, a router, an agent's routers, or none. The rest of a filter is tried on what is read, and one page
looks at so many decisions at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.queries import query

LOOKED_AT = 2_000
COUNTED = 20_000
# What a run decides, it decides within this time of its creation: budgets and questions last for days.
LONGEST_RUN = timedelta(days=60)
NEWEST, OLDEST = UUID(int=2**128 - 1), UUID(int=0)
BEFORE_ALL = 2**62


@dataclass(frozen=True)
class Place:
    """A place in the ledger: what comes next is before it."""

    run_id: UUID = NEWEST
    sequence: int = BEFORE_ALL


@dataclass(frozen=True)
class DecisionFilter:
    """Which decisions; None and empty are all. `subject` is whose runs they are of."""

    agent: str = ""
    router: str = ""
    rule: str = ""
    destination: str = ""
    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None
    correlation_id: str = ""

    @property
    def source(self) -> LiteralString:
        """The query that reads what the filter is tried on."""
        if self.correlation_id:
            return "newest_decisions_of_correlation"
        if self.subject is not None:
            return "newest_decisions_of_caller"
        return "newest_decisions_of_routers" if self.router or self.agent else "newest_decisions"

    @property
    def older(self) -> LiteralString:
        """The query that finds whether decisions of an agent may fit that are older than what is looked at."""
        return "older_decisions_of_agent" if self.subject is None else "older_decisions_of_caller"

    def parameters(self, after: Place, most: int) -> dict[str, Any]:
        """Returns what the queries are given."""
        place = (
            min((after.run_id, after.sequence), (_first_run_id(self.until), 0))
            if self.until
            else (after.run_id, after.sequence)
        )
        return {
            "agent": self.agent or None,
            "router": self.router or None,
            "rule": self.rule or None,
            "destination": self.destination or None,
            "since": self.since,
            "until": self.until,
            "subject": self.subject,
            "correlation_id": self.correlation_id or None,
            "before_run_id": place[0],
            "before_sequence": place[1],
            "oldest_run_id": _first_run_id(self.since, LONGEST_RUN) if self.since else OLDEST,
            "most": most,
        }


@dataclass(frozen=True)
class FoundDecisions:
    """A page of decisions; `after` is where the next begins, None on the last."""

    rows: list[dict[str, Any]]
    after: Place | None


@dataclass(frozen=True)
class CountedDecisions:
    """Counts by router, rule, destination and interval, and whether older decisions may fit that were not looked at."""

    rows: list[dict[str, Any]]
    is_partial: bool

    @property
    def count(self) -> int:
        """How many decisions were counted."""
        return sum(row["count"] for row in self.rows)


class DecisionSearch:
    """Looks for decisions."""

    def __init__(self, pool: AsyncConnectionPool[Any], *, looked_at: int = LOOKED_AT, counted: int = COUNTED) -> None:
        self._pool = pool
        self._looked_at = looked_at
        self._counted = counted

    async def page(self, wanted: DecisionFilter, after: Place, limit: int) -> FoundDecisions:
        """Returns up to `limit` decisions behind a place; fewer, where what one page looks at has no more."""
        most = max(self._looked_at, limit + 1)
        parameters = {**wanted.parameters(after, most), "limit": limit + 1}
        rows = await self._rows(statement("matching_decisions", wanted.source), parameters)
        found = [row for row in rows if row["decision_id"] is not None]
        if len(found) > limit:
            last = found[limit - 1]
            return FoundDecisions(found[:limit], Place(last["run_id"], last["sequence"]))
        first = rows[0]
        is_all = first["looked_at"] < most
        return FoundDecisions(found, None if is_all else Place(first["last_run_id"], first["last_sequence"]))

    async def count(self, wanted: DecisionFilter, interval: timedelta) -> CountedDecisions:
        """Counts the newest decisions of an agent, in whole intervals of time; all at once for an interval of zero."""
        parameters = {
            **wanted.parameters(Place(), self._counted + 1),
            "counted": self._counted,
            "interval_s": int(interval.total_seconds()),
        }
        rows = await self._rows(statement("count_decisions", wanted.source, older=wanted.older), parameters)
        return CountedDecisions([row for row in rows if row["count"]], rows[0]["is_partial"])

    async def _rows(self, wanted: sql.Composed, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(wanted, parameters)
            rows: list[dict[str, Any]] = await cursor.fetchall()
        return rows


def statement(name: str, source: str, **others: str) -> sql.Composed:
    """Returns a query over what another one reads; `others` are queries by the names that it has for them."""
    parts = {"source": source, **others}
    return sql.SQL(query(name)).format(**{part: sql.SQL(query(each)) for part, each in parts.items()})


def _first_run_id(moment: datetime, before: timedelta = timedelta()) -> UUID:
    """Returns the least run id of so long before a moment, as `platform.first_run_id` does; of 1970 at least."""
    # In numbers: before the first days of the calendar there is no moment.
    milliseconds = max(0, int((moment.timestamp() - before.total_seconds()) * 1000))
    return UUID(f"{milliseconds:012x}70008000000000000000")
