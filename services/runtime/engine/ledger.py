"""The decision ledger, read by router."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg import sql

from services.runtime.engine.database import PlatformPool, unhurried
from services.runtime.engine.queries import query
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.in_sql import DecisionInSql
from services.runtime.routing.redeciding import Divergence, StoredDecision
from services.runtime.routing.state import Spend

PAGE = 1000
# The way of a run that Postgres leaves to Python, in `replay.sql`.
LEFT = -1


@dataclass
class DecidedInDatabase:
    """What a replay in the database found; `left` are the runs that it left to Python, and that it does not count."""

    run_count: int = 0
    decision_count: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RecordedDecision:
    """A stored decision with the router and the policy that it was made by."""

    decided: StoredDecision
    router: str
    policy_version: str


class Ledger:
    """Decisions in the database."""

    def __init__(self, pool: PlatformPool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def decisions_of(
        self, router: str, since: datetime | None, run_ids: Sequence[str] | None = None
    ) -> AsyncIterator[AsyncIterator[StoredDecision]]:
        """Opens the decisions of a router made since then, run by run and in order; of some runs, or of all."""
        async with (
            unhurried(self._pool) as connection,
            connection.cursor("decisions_of_router") as cursor,
        ):
            cursor.itersize = PAGE
            parameters = {"router": router, "since": since, "run_ids": None if run_ids is None else list(run_ids)}
            await cursor.execute(query("decisions_of_router"), parameters)
            yield (StoredDecision(*row) async for row in cursor)

    @asynccontextmanager
    async def decisions(self, since: datetime | None) -> AsyncIterator[AsyncIterator[RecordedDecision]]:
        """Opens all decisions made since then, in no order."""
        async with unhurried(self._pool) as connection, connection.cursor("decisions") as cursor:
            cursor.itersize = PAGE
            await cursor.execute(query("decisions"), {"since": since})
            yield (RecordedDecision(StoredDecision(*row[:-2]), *row[-2:]) async for row in cursor)

    async def policies(self) -> dict[str, dict[str, Any]]:
        """Returns the limits of every policy that runs were pinned to, by its version."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("stored_policies"))
            return dict(await cursor.fetchall())

    async def replay(self, router: str, decision: DecisionInSql, since: datetime | None) -> DecidedInDatabase:
        """Decides the decisions of a router made since then once more, in the database; divergences by run."""
        statement = sql.SQL(query("replay")).format(fits=decision.fits, way=decision.way)
        parameters = {"router": router, "since": since, "node_failed": NODE_FAILED, "ways": len(decision.ways) + 1}
        async with unhurried(self._pool) as connection:
            cursor = await connection.execute(statement, parameters)
            rows = await cursor.fetchall()
        found = DecidedInDatabase(*rows[0][:2])
        for _, _, run_id, way, *decided in rows:
            if way == LEFT:
                found.left.append(run_id)
            elif run_id:
                found.divergences.append(Divergence(run_id, *decided, *decision.ways[way - 1]))
        return found

    async def spent_after(self, divergences: Sequence[Divergence]) -> dict[str, Spend]:
        """Returns by run what it spent after it would have gone elsewhere."""
        parameters = {
            "run_ids": [divergence.run_id for divergence in divergences],
            "sequences": [divergence.sequence for divergence in divergences],
        }
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("spent_after"), parameters)
            rows = await cursor.fetchall()
        return {
            run_id: Spend(
                model_calls=models, tool_calls=tools, input_tokens=given, output_tokens=made, wall_time_s=round(time, 3)
            )
            for run_id, models, tools, given, made, time in rows
        }
