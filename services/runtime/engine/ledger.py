"""The decision ledger, read by router."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg import sql

from services.runtime.engine.database import PlatformPool, unhurried
from services.runtime.engine.queries import query
from services.runtime.routing.graph import BEFORE_TABLES
from services.runtime.routing.in_sql import DecisionInSql, text_literal
from services.runtime.routing.redeciding import Divergence, StoredDecision
from services.runtime.routing.state import Spend

PAGE = 1000
# The way of a run that Postgres leaves to Python, in `replay.sql`.
LEFT = -1
_BEFORE_TABLES = {"before_tables": list(BEFORE_TABLES)}


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


@dataclass(frozen=True)
class DecidedBy:
    """How many decisions a table has made under the limits of one version; those by no table are `failed_count`."""

    router: str
    policy_version: str
    decision_count: int
    failed_count: int


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

    async def decided_by(self, since: datetime | None) -> list[DecidedBy]:
        """Returns by what tables and limits the decisions since then were made, and how many."""
        async with unhurried(self._pool) as connection:
            cursor = await connection.execute(query("decided_by"), {"since": since, **_BEFORE_TABLES})
            return [DecidedBy(*row) for row in await cursor.fetchall()]

    async def doubtful(
        self, tables: Mapping[tuple[str, str], DecisionInSql | None], since: datetime | None
    ) -> AsyncGenerator[RecordedDecision, None]:
        """Yields, in no order, the decisions since then that the database does not find as its tables have it.

        `tables` are by router and version of the policy. Of one that the database can't decide by, all decisions are
        doubtful; of one that is not among them, none is.
        """
        if not tables:
            return
        parameters, doubtful = {"since": since, **_BEFORE_TABLES}, _doubtful(tables)
        async with unhurried(self._pool) as connection:
            # Counted first: a count is shared out to parallel processes, and a cursor is not.
            counted = await connection.execute(sql.SQL(query("count_doubtful")).format(doubtful=doubtful), parameters)
            if await counted.fetchone() == (0,):
                return
            async with connection.cursor("doubtful") as found:
                found.itersize = PAGE
                await found.execute(sql.SQL(query("decisions")).format(doubtful=doubtful), parameters)
                async for row in found:
                    yield RecordedDecision(StoredDecision(*row[:-2]), *row[-2:])

    async def policies(self) -> dict[str, dict[str, Any]]:
        """Returns the limits of every policy that runs were pinned to, by its version."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("stored_policies"))
            return dict(await cursor.fetchall())

    async def replay(self, router: str, decision: DecisionInSql, since: datetime | None) -> DecidedInDatabase:
        """Decides the decisions of a router made since then once more, in the database; divergences by run."""
        statement = sql.SQL(query("replay")).format(fits=decision.fits, way=decision.way)
        parameters = {
            "router": router,
            "since": since,
            **_BEFORE_TABLES,
            "ways": len(decision.ways) + 1,
        }
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


def _doubtful(tables: Mapping[tuple[str, str], DecisionInSql | None]) -> sql.Composable:
    by_router: dict[str, list[sql.Composable]] = {}
    for (router, version), decision in tables.items():
        differs = (
            sql.SQL("CASE WHEN {} THEN {} ELSE true END").format(decision.fits, decision.differs)
            if decision
            else sql.SQL("true")
        )
        by_router.setdefault(router, []).append(sql.SQL("WHEN {} THEN {}").format(text_literal(version), differs))
    cases = [
        sql.SQL("WHEN {} THEN CASE policy_version {} ELSE false END").format(
            text_literal(router), sql.SQL(" ").join(versions)
        )
        for router, versions in by_router.items()
    ]
    return sql.SQL("CASE router {} ELSE false END").format(sql.SQL(" ").join(cases))
