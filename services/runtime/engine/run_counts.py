"""Runs counted by time, agent, state and outcome.

They are read by the index of whose they are, or of their agent, or of time, newest first, and so many at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.calls.prices import ModelTokens
from services.runtime.engine.run_search import EVER
from services.runtime.engine.search import NEWEST, statement

COUNTED = 10_000
# An endpoint may name its models as it likes.
MOST_MODELS = 50


@dataclass(frozen=True)
class CountedRuns:
    """Counts by agent, state and outcome, those of all together, and whether older runs were not looked at."""

    counts: Sequence[dict[str, Any]]
    intervals: Sequence[dict[str, Any]]
    is_partial: bool


class RunCounts:
    """Counts runs."""

    def __init__(self, pool: AsyncConnectionPool[Any], *, counted: int = COUNTED) -> None:
        self._pool = pool
        self._counted = counted

    async def count(self, caller: Caller, since: datetime, interval: timedelta, agent: str | None) -> CountedRuns:
        """Counts the newest runs that a caller may see and that were created since a time."""
        rows = await self._rows("count_runs", caller, since, agent, interval_s=int(interval.total_seconds()))
        found = [row for row in rows if row["count"] is not None]
        return CountedRuns(
            [row for row in found if not row["is_whole"]],
            [row for row in found if row["is_whole"]],
            rows[0]["looked_at"] >= self._counted,
        )

    async def model_tokens(self, caller: Caller, since: datetime, agent: str | None) -> Sequence[ModelTokens]:
        """Counts what models were asked for in those runs, the most tokens first."""
        rows = await self._rows("count_model_tokens", caller, since, agent, most_models=MOST_MODELS)
        return [ModelTokens(**row) for row in rows]

    async def _rows(
        self, name: str, caller: Caller, since: datetime, agent: str | None, **others: int
    ) -> list[dict[str, Any]]:
        subject = None if ROLE_OPERATOR in caller.roles else caller.subject
        source = "runs_of_caller" if subject is not None else "runs_of_agent" if agent else "runs_by_time"
        parameters = {
            "subject": subject,
            "agent": agent,
            "since": since,
            "until": EVER[1],
            "before_created": EVER[1],
            "before_run_id": NEWEST,
            "most": self._counted,
            **others,
        }
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(statement(name, source), parameters)
            rows: list[dict[str, Any]] = await cursor.fetchall()
            return rows
