"""Runs one statement as the reader, for one caller, in a read-only transaction of its own.

The session user of every connection is the reader role. The caller is signed for the transaction, so that nothing a
statement does can change who it runs for. A connection forgets everything between two callers (`DISCARD ALL`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import dup
from typing import Any, cast

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from services.kit.logs import get_logger
from services.kit.tool_executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.database_errors import refusal, timed_out
from services.sql_executor.errors import DatabaseBusy, DatabaseDown
from services.sql_executor.metrics import POOL_WAIT, QUERIES_ABANDONED, QUERY_DURATION
from services.sql_executor.naming import CALLER_SETTING
from services.sql_executor.policy import Limits
from services.sql_executor.queries import load_queries
from services.sql_executor.rows import ResultTable, text_results

log = get_logger()

_BEGIN = "BEGIN READ ONLY; SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint"
_BOUNDED = load_queries("bounded.sql")["bounded"]
# A row as text has its quotes doubled, and quotes and a comma around each value: what fits the cap fits this.
_TEXT_OF_ROW = 2
_LEAST_LARGEST_ROW = 8192
_SET_UP = "SELECT set_config(%s, %s, true), set_config('statement_timeout', %s, true)"
# A portion of rows as large as they may be is what a query can make this process hold.
_PORTION = 10
# The server ends a statement at its timeout; what outlasts it by this is cancelled, and by this again cut off.
_WATCHDOG_GRACE_S = 1.0
_CANCEL_GRACE_S = 2.0

Connection = AsyncConnection[Any]


@asynccontextmanager
async def reader_pool(dsn: str, *, min_size: int, max_size: int) -> AsyncIterator[AsyncConnectionPool[Connection]]:
    """Open the one pool of connections to the user's database, as the reader."""
    pool = AsyncConnectionPool(
        dsn,
        connection_class=cast(type[Connection], AsyncConnection),
        kwargs={
            "autocommit": True,  # transactions are begun and ended by hand, to know their every statement
            "prepare_threshold": None,  # nothing outlives a transaction
            "context": text_results(),
            "client_encoding": "UTF8",
            "connect_timeout": 10,
            "application_name": "signalbox sql_executor",
        },
        min_size=min_size,
        max_size=max_size,
        reset=_forget,
        open=False,
        name="reader",
    )
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


async def _forget(connection: Connection) -> None:
    await connection.execute("DISCARD ALL")


class QueryRunner:
    """Runs statements for callers."""

    def __init__(
        self, pool: AsyncConnectionPool[Connection], signer: CallerSigner, limits: Limits, *, pool_wait_s: float = 5.0
    ) -> None:
        self._pool = pool
        self._signer = signer
        self._limits = limits
        self._pool_wait_s = pool_wait_s
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, statement: str, caller: SqlCaller, *, within_s: float | None = None) -> ResultTable:
        """Run a statement and return its rows, within the caps; `within_s` is what is left of the call's deadline.

        Raises ToolRefused for what the model can mend, DatabaseBusy and DatabaseDown otherwise.
        """
        start = time.perf_counter()
        outcome = "error"
        try:
            table = await self._run(statement, caller, self._timeout_ms(within_s))
            outcome = "ok"
        except ToolRefused as error:
            outcome = error.reason
            raise
        finally:
            QUERY_DURATION.labels(outcome).observe(time.perf_counter() - start)
        return table

    async def aclose(self) -> None:
        """Wait until queries that are being ended have ended."""
        if self._ending:
            await asyncio.wait(self._ending)

    def _timeout_ms(self, within_s: float | None) -> int:
        limit = self._limits.statement_timeout_ms
        return limit if within_s is None else max(1, min(limit, int(within_s * 1000)))

    async def _run(self, statement: str, caller: SqlCaller, timeout_ms: int) -> ResultTable:
        connection = await self._connect()
        job = asyncio.create_task(self._use(connection, statement, caller, timeout_ms))
        try:
            done, _ = await asyncio.wait({job}, timeout=timeout_ms / 1000 + _WATCHDOG_GRACE_S)
        except asyncio.CancelledError:
            self._end_later(connection, job)
            raise
        if not done:
            self._end_later(connection, job)
            raise timed_out(timeout_ms)
        return job.result()

    async def _connect(self) -> Connection:
        start = time.perf_counter()
        failures = self._connect_failures()
        try:
            return await self._pool.getconn(self._pool_wait_s)
        except PoolTimeout as error:
            if self._connect_failures() > failures:
                raise DatabaseDown("the user's database can't be reached", retry_after_s=1) from error
            raise DatabaseBusy(f"no database connection came free in {self._pool_wait_s} s", retry_after_s=1) from error
        finally:
            POOL_WAIT.observe(time.perf_counter() - start)

    def _connect_failures(self) -> int:
        return self._pool.get_stats().get("connections_errors", 0)

    async def _use(self, connection: Connection, statement: str, caller: SqlCaller, timeout_ms: int) -> ResultTable:
        """Run the statement and give the connection back, whatever happens in between."""
        try:
            try:
                return await self._in_transaction(connection, statement, caller, timeout_ms)
            finally:
                if not connection.closed:
                    await connection.rollback()
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                raise DatabaseDown("the user's database dropped the connection", retry_after_s=1) from error
            raise refusal(error, timeout_ms) from error
        finally:
            await self._pool.putconn(connection)

    async def _in_transaction(
        self, connection: Connection, statement: str, caller: SqlCaller, timeout_ms: int
    ) -> ResultTable:
        started_us = await _begin(connection)
        signed = self._signer.sign(
            caller,
            database=connection.info.dbname,
            backend_pid=connection.info.backend_pid,
            started_us=started_us,
        )
        await connection.execute(_SET_UP, (CALLER_SETTING, signed, str(timeout_ms)))
        return await self._fetch(connection, statement)

    async def _fetch(self, connection: Connection, statement: str) -> ResultTable:
        # DECLARE takes one query and nothing else, goes by the extended protocol, and is read in portions: many rows
        # are never made whole on either side, and a row that is too large is not sent.
        cursor = connection.cursor(name="signalbox")
        largest_row = self._limits.byte_cap * _TEXT_OF_ROW + _LEAST_LARGEST_ROW
        try:
            await cursor.execute(_BOUNDED.format(statement=statement, largest_row=largest_row))
            table = ResultTable.of((cursor.description or ())[1:], self._limits)
            portion = await cursor.fetchmany(_PORTION)
            while all(table.add(row[1:], was_sent=int(row[0]) <= largest_row) for row in portion) and (
                len(portion) == _PORTION
            ):
                portion = await cursor.fetchmany(_PORTION)
            return table
        finally:
            if not connection.closed:
                await connection.rollback()  # takes the cursor with it: closing it then needs no round trip
            await cursor.close()

    def _end_later(self, connection: Connection, job: asyncio.Task[ResultTable]) -> None:
        task = asyncio.create_task(_end(connection, job))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _begin(connection: Connection) -> int:
    cursor = await connection.execute(_BEGIN)
    cursor.nextset()
    row = await cursor.fetchone()
    if row is None:
        raise psycopg.InternalError("the transaction has no start")
    return int(row[0])


async def _end(connection: Connection, job: asyncio.Task[ResultTable]) -> None:
    """End a query whose caller has left or whose timeout passed unheeded: cancel it, then drop the connection."""
    by = "cancelled"
    with contextlib.suppress(psycopg.Error):  # when the server does not answer, the next step needs no answer
        await connection.cancel_safe(timeout=_CANCEL_GRACE_S)
    done, _ = await asyncio.wait({job}, timeout=_CANCEL_GRACE_S)
    if not done and not connection.closed:
        by = "disconnected"
        _cut_off(connection)
        await asyncio.wait({job})
    QUERIES_ABANDONED.labels(by).inc()
    failure = job.exception() if not job.cancelled() else None
    log.info("query ended early", by=by, failure=type(failure).__name__ if failure else "")


def _cut_off(connection: Connection) -> None:
    # Some functions never look at their timeout nor at a cancel request. Shutting the socket down wakes whoever waits.
    with socket.socket(fileno=dup(connection.fileno())) as wire, contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
