"""Runs one statement as the reader, for one caller, in a read-only transaction of its own.

The session user of every connection is the reader role. The caller is signed for the transaction, so that nothing a
statement does can change who it runs for. A connection forgets everything between two callers (`DISCARD ALL`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import NamedTuple

import psycopg

from services.kit.telemetry.logs import get_logger
from services.kit.tools.executor import ToolRefused
from services.kit.wire.tasks import detached
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.database_errors import refusal, timed_out
from services.sql_executor.errors import DatabaseDown
from services.sql_executor.metrics import QUERIES_ABANDONED, QUERIES_OVERDUE, QUERY_DURATION
from services.sql_executor.naming import CALLER_SETTING
from services.sql_executor.policy import Limits
from services.sql_executor.pool import Begun, Connection, ReaderPool, cut_off
from services.sql_executor.queries import load_queries
from services.sql_executor.rows import ResultTable

log = get_logger()

_BOUNDED = load_queries("bounded.sql")["bounded"]
# A row as text has its quotes doubled, and quotes and a comma around each value: what fits the cap fits this.
_TEXT_OF_ROW = 2
_LEAST_LARGEST_ROW = 8192
# Trying every order of eleven tables that are joined on three columns takes 2 s and 570 MB.
_SET_UP = (
    "SELECT set_config(%s, %s, true), set_config('statement_timeout', %s, true), set_config('work_mem', %s, true), "
    "set_config('geqo_threshold', '8', true)"
)
# How many parts of a plan may fill `work_mem`; more of them share what these have. Postgres takes no less than 64 KiB.
_FULL_PARTS = 12
_LEAST_WORK_MEM_KB = 64
# A portion of rows as large as they may be is what a query can make this process hold.
_PORTION = 10
_DECLARE = "DECLARE signalbox CURSOR FOR "
_FETCH = f"FETCH FORWARD {_PORTION} FROM signalbox"
# The server ends a statement at its timeout; what outlasts it by this is cancelled. What a cancel does not end keeps
# its connection until it ends by itself: it would go on in the database without one, and the next one beside it.
_WATCHDOG_GRACE_S = 1.0
_CANCEL_GRACE_S = 2.0
_STILL_THERE_S = 5.0


class _Query(NamedTuple):
    """A statement, as it is to run."""

    statement: str
    caller: SqlCaller
    timeout_ms: int
    work_mem_kb: int


class QueryRunner:
    """Runs statements for callers."""

    def __init__(self, pool: ReaderPool, signer: CallerSigner, limits: Limits) -> None:
        self._pool = pool
        self._signer = signer
        self._limits = limits
        self._ending: set[asyncio.Task[None]] = set()

    async def run(
        self, statement: str, caller: SqlCaller, *, parts: int = 1, within_s: float | None = None
    ) -> ResultTable:
        """Runs a statement and returns its rows, within the caps; `within_s` is what is left of the call's deadline.

        `parts` of its plan may each hold memory: many of them get less of it.
        Raises ToolRefused for what the model can mend, DatabaseBusy and DatabaseDown otherwise.
        """
        start = time.perf_counter()
        outcome = "error"
        try:
            table = await self._run(_Query(statement, caller, self._timeout_ms(within_s), self._work_mem_kb(parts)))
            outcome = "ok"
        except ToolRefused as error:
            outcome = error.reason
            raise
        finally:
            QUERY_DURATION.labels(outcome).observe(time.perf_counter() - start)
        return table

    async def aclose(self) -> None:
        """Leaves the queries that are still being ended."""
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(self._ending)

    def _timeout_ms(self, within_s: float | None) -> int:
        limit = self._limits.statement_timeout_ms
        return limit if within_s is None else max(1, min(limit, int(within_s * 1000)))

    def _work_mem_kb(self, parts: int) -> int:
        limit = self._limits.work_mem_kb
        return max(limit * _FULL_PARTS // max(parts, _FULL_PARTS), _LEAST_WORK_MEM_KB)

    async def _run(self, query: _Query) -> ResultTable:
        connection, begun = await self._pool.take(query.caller)
        job = asyncio.create_task(self._use(connection, query, begun))
        try:
            done, _ = await asyncio.wait({job}, timeout=query.timeout_ms / 1000 + _WATCHDOG_GRACE_S)
        except asyncio.CancelledError:
            self._end_later(connection, begun, job)
            raise
        if not done:
            self._end_later(connection, begun, job)
            raise timed_out(query.timeout_ms)
        return job.result()

    async def _use(self, connection: Connection, query: _Query, begun: Begun) -> ResultTable:
        """Runs the statement and gives the connection back, whatever happens in between."""
        try:
            try:
                return await self._in_transaction(connection, query, begun)
            finally:
                if not connection.closed:
                    await connection.rollback()
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                raise DatabaseDown("the user's database dropped the connection", retry_after_s=1) from error
            raise refusal(error, query.timeout_ms) from error
        finally:
            await self._pool.give_back(connection, query.caller)

    async def _in_transaction(self, connection: Connection, query: _Query, begun: Begun) -> ResultTable:
        signed = self._signer.sign(
            query.caller,
            database=begun.database,
            backend_pid=begun.backend_pid,
            started_us=begun.started_us,
        )
        settings = (CALLER_SETTING, signed, str(query.timeout_ms), str(query.work_mem_kb))
        await connection.execute(_SET_UP, settings)
        return await self._fetch(connection, query.statement)

    async def _fetch(self, connection: Connection, statement: str) -> ResultTable:
        # DECLARE takes one query and nothing else, goes by the extended protocol (`binary` sees to that), and is read
        # in portions: many rows are never made whole on either side, and a row that is too large is not sent. One of
        # psycopg's cursors would do the same, and ask the server once more what the columns are.
        largest_row = self._limits.byte_cap * _TEXT_OF_ROW + _LEAST_LARGEST_ROW
        declared = _DECLARE + _BOUNDED.format(statement=statement, largest_row=largest_row)
        await connection.execute(declared, binary=True)
        cursor = await connection.execute(_FETCH)
        table = ResultTable.of((cursor.description or ())[1:], self._limits)
        portion = await cursor.fetchall()
        while all(table.add(row[1:], was_sent=int(row[0]) <= largest_row) for row in portion) and (
            len(portion) == _PORTION
        ):
            portion = await (await connection.execute(_FETCH)).fetchall()
        return table

    def _end_later(self, connection: Connection, begun: Begun, job: asyncio.Task[ResultTable]) -> None:
        task = detached(self._end(connection, begun, job))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, connection: Connection, begun: Begun, job: asyncio.Task[ResultTable]) -> None:
        """Ends a query whose caller has left or whose timeout passed unheeded, or waits until it ends by itself."""
        by = "cancelled"
        try:
            with contextlib.suppress(psycopg.Error):  # when the server does not answer, the next step needs no answer
                await connection.cancel_safe(timeout=_CANCEL_GRACE_S)
            done, _ = await asyncio.wait({job}, timeout=_CANCEL_GRACE_S)
            if not done:
                by = "itself"
                with QUERIES_OVERDUE.track_inprogress():
                    await self._outwait(begun, job)
        finally:
            if not job.done():
                by = "disconnected"
                cut_off(connection)
                await asyncio.wait({job})
            QUERIES_ABANDONED.labels(by).inc()
            failure = job.exception() if not job.cancelled() else None
            log.info("query ended early", by=by, failure=type(failure).__name__ if failure else "")

    async def _outwait(self, begun: Begun, job: asyncio.Task[ResultTable]) -> None:
        """Returns when a query has ended, or when nothing is left in the database that could end."""
        while True:
            done, _ = await asyncio.wait({job}, timeout=_STILL_THERE_S)
            if done:
                return
            with contextlib.suppress(psycopg.Error):  # a database that does not answer has not said that it is gone
                if not await self._pool.has_backend(begun.backend_pid):
                    return
