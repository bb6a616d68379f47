"""The pool of connections to the user's database, as the reader: who gets one, and what is said when none comes.

A database that is away is said to be so as soon as connecting fails, and is asked again by every call: the pool's own
back-off would go on for half a minute after the database is back. A full pool is something else, and is said to be so.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager
from os import dup
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from services.kit.postgres import make_pool
from services.kit.telemetry.pool_metrics import shown
from services.sql_executor.callers import SqlCaller
from services.sql_executor.errors import DatabaseBusy, DatabaseDown
from services.sql_executor.metrics import POOL_WAIT
from services.sql_executor.rows import text_results

Connection = AsyncConnection[Any]
APPLICATION_NAME = "signalbox sql_executor"
_T = TypeVar("_T")
# Asked of the server itself: the process and the database that a connection began with are a pooler's own, behind one.
_BEGIN = (
    "BEGIN READ ONLY; "
    "SELECT current_database(), pg_backend_pid(), (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint"
)
# What takes no time and has no answer by then will have none: the connection went silent.
_ANSWER_S = 2.0
# One try more after half a second, for a server that is being replaced; then those who wait are told.
RECONNECT_S = 0.5
_CONNECT_TIMEOUT_S = 2  # the least that libpq knows


class Begun(NamedTuple):
    """A transaction: its database and process on the server, and when it began there, in microseconds since 1970."""

    database: str
    backend_pid: int
    started_us: int


class ReaderPool:
    """Connections of the reader role, of which no caller has more than a few at once."""

    def __init__(self, dsn: str, *, min_size: int, max_size: int, wait_s: float = 5.0, per_caller: int = 2) -> None:
        self._pool: AsyncConnectionPool[Connection] = make_pool(
            dsn,
            APPLICATION_NAME,
            # Transactions are begun and ended by hand, to know their every statement, and nothing outlives one.
            prepare=False,
            parameters={
                "context": text_results(),
                "client_encoding": "UTF8",
                "connect_timeout": _CONNECT_TIMEOUT_S,
            },
            min_size=min_size,
            max_size=max_size,
            reset=_forget,
            reconnect_timeout=RECONNECT_S,
            reconnect_failed=self._notice_failure,
            name="reader",
        )
        self._wait_s = wait_s
        self._per_caller = per_caller
        self._held: Counter[SqlCaller] = Counter()
        self._came_back = asyncio.Condition()
        self._failure: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Starts connecting."""
        await self._pool.open()

    async def close(self) -> None:
        """Closes every connection that is not in use."""
        await self._pool.close()

    def shown(self) -> AbstractContextManager[None]:
        """Shows in metrics, inside the context, how full the pool is."""
        return shown(self._pool)

    @property
    def size(self) -> int:
        """Connections that there are, in use or not."""
        return self._pool.get_stats().get("pool_size", 0)

    async def take(self, caller: SqlCaller) -> tuple[Connection, Begun]:
        """Returns a connection for a caller, in a transaction just begun.

        A connection that was lost while it lay in the pool costs nothing but its place there.
        Raises DatabaseBusy and DatabaseDown.
        """
        start = time.perf_counter()
        try:
            await self._turn(caller)
            try:
                while True:
                    connection = await self._connect(self._wait_s - (time.perf_counter() - start))
                    begun = await _begun(connection)
                    if begun is not None:
                        return connection, begun
                    await self._pool.putconn(connection)
            except BaseException:
                await self._end_turn(caller)
                raise
        finally:
            POOL_WAIT.observe(time.perf_counter() - start)

    async def give_back(self, connection: Connection, caller: SqlCaller) -> None:
        """Takes a connection back; a broken one is replaced."""
        try:
            await self._pool.putconn(connection)
        finally:
            await self._end_turn(caller)

    async def has_backend(self, pid: int) -> bool:
        """Whether a session of the reader lives in the database, asked over a connection of its own.

        Raises psycopg.Error.
        """
        kwargs = cast(dict[str, Any], self._pool.kwargs)
        async with await AsyncConnection.connect(str(self._pool.conninfo), **kwargs) as connection:
            cursor = await connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,))
            return await cursor.fetchone() is not None

    async def _turn(self, caller: SqlCaller) -> None:
        def has_room() -> bool:
            return self._held[caller] < self._per_caller

        async with self._came_back:
            try:
                await asyncio.wait_for(self._came_back.wait_for(has_room), self._wait_s)
            except TimeoutError as error:
                raise DatabaseBusy(
                    f"{self._per_caller} queries of this caller are still running", retry_after_s=1
                ) from error
            self._held[caller] += 1

    async def _end_turn(self, caller: SqlCaller) -> None:
        async with self._came_back:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]
            self._came_back.notify_all()

    async def _connect(self, wait_s: float) -> Connection:
        wanted = asyncio.create_task(self._pool.getconn(max(wait_s, 0.001)))
        failure = self._next_failure()
        try:
            await asyncio.wait((wanted, failure), return_when=asyncio.FIRST_COMPLETED)
            if not wanted.done():
                raise DatabaseDown("the user's database can't be reached", retry_after_s=1)
            return wanted.result()
        except PoolTimeout as error:
            raise DatabaseBusy(f"no database connection came free in {self._wait_s} s", retry_after_s=1) from error
        finally:
            if not wanted.done():
                wanted.cancel()
                await self._return_late(wanted)

    async def _return_late(self, wanted: asyncio.Task[Connection]) -> None:
        """A connection may have come while its taker was leaving."""
        await asyncio.wait({wanted})
        if not wanted.cancelled() and wanted.exception() is None:
            await self._pool.putconn(wanted.result())

    def _next_failure(self) -> asyncio.Future[None]:
        if self._failure is None or self._failure.done():
            self._failure = asyncio.get_running_loop().create_future()
        return self._failure

    async def _notice_failure(self, _pool: object) -> None:
        # Where others are connected, the database is there, and one of them may come free.
        if not self.size and self._failure is not None and not self._failure.done():
            self._failure.set_result(None)


@asynccontextmanager
async def reader_pool(
    dsn: str, *, min_size: int, max_size: int, wait_s: float = 5.0, per_caller: int = 2
) -> AsyncIterator[ReaderPool]:
    """Opens the one pool of connections to the user's database."""
    pool = ReaderPool(dsn, min_size=min_size, max_size=max_size, wait_s=wait_s, per_caller=per_caller)
    await pool.open()
    try:
        with pool.shown():
            yield pool
    finally:
        await pool.close()


async def _forget(connection: Connection) -> None:
    await _answered(connection, connection.execute("DISCARD ALL"))


async def _begun(connection: Connection) -> Begun | None:
    """Begins a transaction; returns None when the connection turns out to be lost, or silent."""
    try:
        return await _answered(connection, _begin(connection))
    except psycopg.Error:
        await connection.close()
        return None


async def _answered(connection: Connection, call: Coroutine[Any, Any, _T]) -> _T:
    """Returns what the server answers; one that says nothing is cut off, which raises psycopg.OperationalError."""
    asking = asyncio.create_task(call)
    try:
        done, _ = await asyncio.wait({asking}, timeout=_ANSWER_S)
        if not done:
            cut_off(connection)
            await asyncio.wait({asking})
    except asyncio.CancelledError:
        cut_off(connection)
        raise
    return asking.result()


async def _begin(connection: Connection) -> Begun:
    cursor = await connection.execute(_BEGIN)
    cursor.nextset()
    row = await cursor.fetchone()
    if row is None:
        raise psycopg.InternalError("the transaction has no start")
    database, backend_pid, started_us = row
    return Begun(database, int(backend_pid), int(started_us))


def cut_off(connection: Connection) -> None:
    """Shuts a connection's socket down, which wakes whoever waits for it."""
    if connection.closed:
        return
    with socket.socket(fileno=dup(connection.fileno())) as wire, contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
