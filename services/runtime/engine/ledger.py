"""The decision ledger, read by router."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.queries import query
from services.runtime.routing.replay import Divergence, StoredDecision
from services.runtime.routing.state import Spend

PAGE = 1000


class Ledger:
    """Decisions in the database."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    @asynccontextmanager
    async def decisions_of(self, router: str, since: datetime | None) -> AsyncIterator[AsyncIterator[StoredDecision]]:
        """Opens the decisions of a router made since then, run by run and in order."""
        async with (
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor("decisions_of_router") as cursor,
        ):
            cursor.itersize = PAGE
            await cursor.execute(query("decisions_of_router"), {"router": router, "since": since})
            yield (StoredDecision(*row) async for row in cursor)

    async def spent_after(self, divergences: Sequence[Divergence]) -> dict[str, Spend]:
        """Returns by run what it spent after it would have gone elsewhere."""
        parameters = {
            "run_ids": [divergence.decision.run_id for divergence in divergences],
            "sequences": [divergence.decision.sequence for divergence in divergences],
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
