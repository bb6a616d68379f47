"""The table `agents`: which hosted graphs the pools of runtimes offer, for replicas that have not loaded them.

A name is one pool's: another that offers it is refused at its start. Versions of one pool follow each other, as they do
in a rolling update. What is not seen is away, and keeps its name; it is forgotten once no run waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import stop
from services.runtime.engine.background import attempt
from services.runtime.engine.queries import query
from services.runtime.settings import RUNTIME

log = get_logger()
RENEW_S: Final = 10.0
# Some rounds that failed, or a replica that starts anew, are no absence.
AWAY_S: Final = 45.0
KEPT_S: Final = 7 * 86_400.0
PRUNE_EVERY: Final = 60
# How long a call whose work is committed waits until others are told of it.
TELL_S: Final = 2.0
# Where replicas are told that runs of an agent are pending which was not at hand where that came about.
WORK_CHANNEL: Final = "signalbox:work"


class OfferedByOthersError(Exception):
    """Agents of this pool are another's; `problems` has a sentence for each."""

    def __init__(self, problems: list[str], names: Collection[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.names = names


@dataclass(frozen=True)
class Offer:
    """A hosted graph that a pool offers: serialized `Agent` and `AgentOutline`, and since when nobody of it is seen."""

    name: str
    graph_version: str
    pool: str
    listed: bytes
    outline: bytes
    away_since: datetime | None = None


class Offers:
    """What this replica's pool offers, and what others do. `succeeds` are pools whose agents this one goes on with."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        own: Sequence[Offer] = (),
        *,
        pool_name: str = RUNTIME,
        succeeds: Collection[str] = (),
        away_s: float = AWAY_S,
    ) -> None:
        self._pool = pool
        self._own = own
        self._away_s = away_s
        self._parameters = {
            "names": [each.name for each in own],
            "versions": [each.graph_version for each in own],
            "listed": [each.listed for each in own],
            "outlines": [each.outline for each in own],
            "pool": pool_name,
            "succeeds": list(succeeds),
            "away_s": away_s,
        }
        # Names that another pool has taken while this one was away: their runs are no longer this replica's.
        self.lost: frozenset[str] = frozenset()

    async def enter(self) -> None:
        """Writes down what this pool offers. Raises OfferedByOthersError, DatabaseAway."""
        if not self._own:
            return
        async with self._pool.connection() as connection, connection.transaction():
            # Two pools that start at the same time come one after the other.
            await connection.execute("LOCK TABLE platform.agents IN SHARE ROW EXCLUSIVE MODE")
            await self._check(connection)
            await connection.execute(query("offer_agents"), self._parameters)
        self.lost = frozenset()

    async def _check(self, connection: AsyncConnection[Any]) -> None:
        cursor = await connection.execute(query("agents_of_others"), self._parameters)
        others = await cursor.fetchall()
        if others:
            raise OfferedByOthersError([_said(*row) for row in others], [name for name, _, _ in others])

    async def renew(self) -> None:
        """Says that this pool is there. Raises DatabaseAway."""
        if not self._own:
            return
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("renew_agents"), self._parameters)
            renewed = {name for (name,) in await cursor.fetchall()}
        if len(renewed) < len(self._own):
            # Forgotten while the database or this replica was away, or taken by another pool.
            try:
                await self.enter()
            except OfferedByOthersError as error:
                self.lost = frozenset(error.names)
                log.error("agents are another pool's by now; their runs are left to it", problems=error.problems)  # noqa: TRY400

    async def find(self, name: str) -> Offer | None:
        """Returns what a pool offers under a name. Raises DatabaseAway."""
        return next(iter(await self._select(name)), None)

    async def all(self) -> list[Offer]:
        """Returns what all pools offer, by name. Raises DatabaseAway."""
        return await self._select(None)

    async def names(self) -> set[str]:
        """Returns the names that pools have, also of what they offer no longer. Raises DatabaseAway."""
        async with self._pool.connection() as connection:
            return await _names(connection)

    async def _select(self, name: str | None) -> list[Offer]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Offer))
            await cursor.execute(query("offered_agents"), {"name": name, "away_s": self._away_s})
            found: list[Offer] = await cursor.fetchall()
            return found

    async def tell_of_work(self, agent: str) -> None:
        """Tells the replicas that have an agent of pending runs of it; if that fails, they look by themselves."""
        await attempt("tell_of_work", self._tell_of_work(agent), limit_s=TELL_S)

    async def _tell_of_work(self, agent: str) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(query("tell_of_work"), {"channel": WORK_CHANNEL, "agent": agent})

    async def prune(self) -> None:
        """Forgets what has not been seen for long and no run waits for. Raises DatabaseAway."""
        async with self._pool.connection() as connection:
            await connection.execute(query("prune_agents"), {"kept_s": KEPT_S})

    @asynccontextmanager
    async def keeping(self, *, interval_s: float = RENEW_S) -> AsyncIterator[None]:
        """Says again and again, inside the context, that this pool is there."""
        task = asyncio.create_task(self._keep(interval_s))
        try:
            yield
        finally:
            await stop(task)

    async def _keep(self, interval_s: float) -> None:
        rounds = 0
        while True:
            await attempt("offer_agents", self.renew())
            if rounds % PRUNE_EVERY == 0:
                await attempt("forget_agents", self.prune())
            rounds += 1
            await asyncio.sleep(interval_s)


async def offered_before(pool: AsyncConnectionPool[Any]) -> set[str]:
    """Returns the names that pools have; none of a database that is not migrated so far. Raises DatabaseAway."""
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT to_regclass('platform.agents') IS NOT NULL")
        if await cursor.fetchone() != (True,):
            return set()
        return await _names(connection)


async def _names(connection: AsyncConnection[Any]) -> set[str]:
    cursor = await connection.execute(query("names_of_agents"))
    return {name for (name,) in await cursor.fetchall()}


def name_of(pool: str) -> str:
    """Returns what a pool is called."""
    return "the runtime itself" if pool == RUNTIME else f"the pool {pool!r}"


def _said(name: str, pool: str, is_seen: bool) -> str:
    whose = name_of(pool)
    if is_seen:
        return f"the agent {name!r} is offered by {whose}: name the graph otherwise, or take it away there first"
    return (
        f"the agent {name!r} is that of {whose}, which is away and has runs of it that have not ended: name the graph "
        f"otherwise, cancel those runs, or set SIGNALBOX_POOL_SUCCEEDS={pool} to go on with them"
    )
