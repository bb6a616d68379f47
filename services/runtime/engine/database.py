"""Connections to the platform database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, cast

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import RV, Params, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DiskFull, FeatureNotSupported, ReadOnlySqlTransaction, _WaitTimeout
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from services.kit.postgres import make_pool
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.pool_metrics import shown
from services.runtime.errors import DatabaseAway

log = get_logger()
APPLICATION_NAME = "signalbox-runtime"
OPEN_TIMEOUT_S = 15
# A pool's pauses between its attempts to connect double from a second on, for as long as this; then it begins anew.
RECONNECT_S = 3.0
# Up to so many connections, upkeep gets one of them.
SMALL = 4
# Where in Postgres it is found that a migration has changed what a prepared statement returns; the error has no code of
# its own, and its text is in the server's language.
STALE_PLAN = "RevalidateCachedQuery"
WAIT_INTERVAL_S = 0.1
# What a session lets a statement, a wait for a lock and a pause within a transaction take. Not behind a pooler, whose
# sessions are not ours: there the role can have them.
SESSION_LIMITS = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
}
# Claims and sweeps read by the same indexes whatever they are given; planned anew each time, a claim costs three times
# as much on a million waiting runs (`python -m tests.bench growth`).
ONE_PLAN = {"plan_cache_mode": "force_generic_plan"}
# A server that has not answered by then never will: what it was sent, or what it says, gets lost on the way.
ANSWER_S = 45.0
# Upkeep in large batches takes its time.
UPKEEP_ANSWER_S = 900.0
_NO_LIMITS = "SELECT " + ", ".join(f"set_config('{name}', '0', true)" for name in SESSION_LIMITS)


class PlatformCursor(AsyncCursor[Any]):
    """A cursor that outlives migrations: a statement whose prepared form no longer fits is tried once more."""

    async def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        """Executes a statement, at most twice. Raises psycopg.Error."""
        try:
            return await super().execute(query, params, prepare=prepare, binary=binary)
        except FeatureNotSupported as error:
            if error.diag.source_function != STALE_PLAN:
                raise
            cast(PlatformConnection, self.connection).stale = True
            if self.connection.info.transaction_status is not TransactionStatus.IDLE:
                raise  # its transaction is lost; whoever began it begins it anew
            log.info("a prepared statement no longer fits its tables; the connection goes")
            return await super().execute(query, params, prepare=False, binary=binary)


class PlatformConnection(AsyncConnection[Any]):
    """A connection that knows when it is not to be used again: what it has prepared is stale, or nobody answers."""

    stale = False
    answer_s = ANSWER_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = PlatformCursor

    async def wait(self, gen: PQGen[RV], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> RV:  # noqa: ASYNC109 - the base's parameter
        """Waits for an answer, but not for ever. Raises psycopg.OperationalError, and is closed, when none comes."""
        try:
            return await super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except _WaitTimeout as error:
            if timeout is not None:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the database has not answered for {self.answer_s:g} s") from error


class PlatformPool(AsyncConnectionPool[PlatformConnection]):
    """A pool that tells apart what is wrong with a statement, that it is busy, and that the database is away."""

    _lent = 0

    @cached_property
    def for_the_unhurried(self) -> asyncio.Semaphore:
        """Half of the connections, where there are two: reports and upkeep leave callers the others."""
        return asyncio.Semaphore(max(1, self.max_size // 2))

    async def getconn(self, timeout: float | None = None) -> PlatformConnection:  # noqa: ASYNC109 - the base's parameter
        """Lends a connection, however long the queue is. Raises psycopg_pool.PoolTimeout when nobody gets one."""
        while True:
            lent = self._lent
            try:
                connection = await super().getconn(timeout)
            except PoolTimeout:
                if self._lent == lent:
                    raise
                log.warning("waiting for a connection", pool=self.name, **_queue_of(self))
            else:
                self._lent += 1
                return connection

    async def reconnect_failed(self) -> None:
        """Has the pool go on: by itself it gives up, and connects again only for those who come later."""
        async with self._lock:
            if self._waiting or self._nconns < self._min_size:
                self._maybe_grow_pool()

    @property
    def waiting_count(self) -> int:
        """How many wait for a connection."""
        return int(self.get_stats().get("requests_waiting", 0))

    @asynccontextmanager
    async def connection(self, timeout: float | None = None) -> AsyncIterator[PlatformConnection]:  # noqa: ASYNC109 - the base's parameter
        """Lends a connection. Raises DatabaseAway, also for what happens inside the context."""
        try:
            async with super().connection(timeout) as connection:
                try:
                    yield connection
                except ReadOnlySqlTransaction:
                    # A primary that has become a standby: another connection may find the new one.
                    await connection.close()
                    raise
                except FeatureNotSupported as error:
                    if connection.stale:
                        raise DatabaseAway("the database was migrated in mid-transaction; try again") from error
                    raise
                finally:
                    connection.answer_s = ANSWER_S
                    if connection.stale:
                        await connection.close()
        except DiskFull as error:
            raise DatabaseAway("the platform database has no room left; try again once it has") from error
        except (psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction) as error:
            raise DatabaseAway("the platform database can't be reached; try again") from error


def _queue_of(pool: AsyncConnectionPool[Any]) -> dict[str, int]:
    stats = pool.get_stats()
    return {"waiting_count": stats.get("requests_waiting", 0), "size": stats.get("pool_size", 0)}


@dataclass(frozen=True)
class Pools:
    """Connections by their use: thousands of callers keep no run from its step, and no lease from its renewal."""

    steps: PlatformPool
    calls: PlatformPool
    upkeep: PlatformPool

    @classmethod
    def shared(cls, pool: PlatformPool) -> Self:
        """One pool for every use."""
        return cls(pool, pool, pool)

    async def renew(self) -> None:
        """Makes new connections in the place of all, without waiting for the old ones, which may have fallen silent."""
        for pool in {id(pool): pool for pool in (self.steps, self.calls, self.upkeep)}.values():
            await pool.drain()


@asynccontextmanager
async def open_pools(dsn: str, *, size: int, prepare: bool = True) -> AsyncIterator[Pools]:
    """Opens pools of `size` connections together: a quarter for callers, two for upkeep, the others for steps."""
    calls, upkeep = max(size // 4, 1), 2 if size > SMALL else 1
    async with AsyncExitStack() as stack:
        steps, *others = [
            await stack.enter_async_context(open_pool(dsn, size=part, prepare=prepare, name=name, settings=settings))
            for name, part, settings in (
                ("steps", max(size - calls - upkeep, 1), {}),
                ("calls", calls, {}),
                ("upkeep", upkeep, ONE_PLAN),
            )
        ]
        for pool in (steps, *others):
            stack.enter_context(shown(pool))
        yield Pools(steps, *others)


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    size: int,
    prepare: bool = True,
    name: str | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[PlatformPool]:
    """Opens a pool in autocommit mode: a statement is a transaction unless one is begun.

    Without `prepare` its sessions are a pooler's, which are shared, so that nothing is set on them.
    """
    pool = make_pool(
        dsn,
        APPLICATION_NAME,
        prepare=prepare,
        pool_class=PlatformPool,
        parameters={"options": _options(dsn, {**SESSION_LIMITS, **settings})} if prepare else {},
        connection_class=PlatformConnection,
        min_size=min(2, size),
        max_size=size,
        name=name,
        reconnect_timeout=RECONNECT_S,
    )
    async with pool:
        await pool.wait(OPEN_TIMEOUT_S)
        yield pool


@asynccontextmanager
async def unhurried(pool: PlatformPool) -> AsyncIterator[PlatformConnection]:
    """Lends a connection in a transaction that may take its time: for upkeep and reports, for which no run waits."""
    async with pool.for_the_unhurried, pool.connection() as connection, connection.transaction():
        await connection.execute(_NO_LIMITS)
        connection.answer_s = UPKEEP_ANSWER_S
        yield connection


def _options(dsn: str, settings: Mapping[str, str]) -> str:
    given = " ".join(f"-c {name}={value}" for name, value in settings.items())
    # What the DSN says comes later, and so has the last word.
    return f"{given} {conninfo_to_dict(dsn).get('options') or ''}".strip()
