"""What callers share of a database: nobody takes all of it, and nobody is told that it is full when it is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import psycopg
import pytest

from services.kit.tools.executor import ToolRefused
from services.local.ports import HeldPorts
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.errors import DatabaseBusy, DatabaseDown
from services.sql_executor.execution import QueryRunner
from services.sql_executor.metrics import QUERIES_OVERDUE
from services.sql_executor.pool import ReaderPool, reader_pool
from services.sql_executor.rows import ResultTable
from tests.integration.sql_executor.fleet import CALLER, NEIGHBOUR, SECRET, Fleet, fleet_policy

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER, OTHER = SqlCaller(str(CALLER), is_admin=False), SqlCaller(str(NEIGHBOUR), is_admin=False)
WAIT_S = 60.0
DEVICES = "SELECT count(*) FROM devices"
# Ends when the table has a row, and by nothing that its own session is told.
_DEAF = """
    CREATE TABLE public.end_of_deafness (at timestamptz);
    CREATE FUNCTION public.deaf() RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
    BEGIN
        LOOP
            BEGIN
                IF EXISTS (SELECT FROM end_of_deafness) THEN RETURN 1; END IF;
                PERFORM pg_sleep(0.05);
            EXCEPTION WHEN query_canceled THEN
                NULL;
            END;
        END LOOP;
    END $$;
    GRANT EXECUTE ON FUNCTION public.deaf() TO signalbox_reader;
"""
# Of this database alone: other executors of the cluster serve others under the same role.
_READERS = "FROM pg_stat_activity WHERE usename = 'signalbox_reader' AND datname = current_database()"
_SESSIONS = f"SELECT count(*) {_READERS}"
_END_SESSIONS = f"SELECT pg_terminate_backend(pid) {_READERS}"


class Way:
    """A way to the database that can be closed and opened again, and whose connections can go silent."""

    def __init__(self, dsn: str) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self._parts = parts
        self._database = str(parts["host"]), int(str(parts["port"]))
        self._server: asyncio.Server | None = None
        self._ports = HeldPorts()
        self._address = self._ports.hold("127.0.0.1:0")
        self._writers: set[asyncio.StreamWriter] = set()
        self._hearing: set[asyncio.Event] = set()

    async def open(self) -> str:
        """Lets connections through; returns the DSN of the way, which stays the same."""
        host, port = self._address.split(":")
        self._server = await asyncio.start_server(self._serve, host, int(port))
        return psycopg.conninfo.make_conninfo("", **{**self._parts, "host": host, "port": port})

    async def close(self) -> None:
        """Cuts every connection and lets none through."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def silence(self) -> None:
        """Swallow what the present connections send; new ones are let through."""
        for hears in self._hearing:
            hears.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_database, to_database = await asyncio.open_connection(*self._database)
        hears = asyncio.Event()
        hears.set()
        self._hearing.add(hears)
        self._writers |= {writer, to_database}
        with contextlib.suppress(OSError):
            await asyncio.gather(self._copy(reader, to_database, hears), self._copy(from_database, writer, hears))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, hears: asyncio.Event) -> None:
        try:
            while data := await source.read(1 << 16):
                if hears.is_set():
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()


@asynccontextmanager
async def _runner(
    dsn: str, *, size: int = 1, wait_s: float = 60, timeout_ms: int = 20_000
) -> AsyncIterator[tuple[QueryRunner, ReaderPool]]:
    async with reader_pool(dsn, min_size=size, max_size=size, wait_s=wait_s) as pool:
        runner = _over(pool, timeout_ms)
        yield runner, pool
        await runner.aclose()


def _over(pool: ReaderPool, timeout_ms: int) -> QueryRunner:
    return QueryRunner(pool, CallerSigner(SECRET), fleet_policy(statement_timeout_ms=timeout_ms).limits)


async def _connected(pool: ReaderPool) -> None:
    """Waits until the pool has all its connections, which may take longer than its callers wait."""
    await pool._pool.wait(WAIT_S)


async def _patiently(runner: QueryRunner, caller: SqlCaller) -> list[Sequence[str | None]]:
    """Counts a caller's devices; where that is told to come back, since a connection takes long to come, it does."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(DatabaseBusy):
                return (await runner.run(DEVICES, caller)).rows


async def _begun_to_sleep(fleet: Fleet, runner: QueryRunner) -> asyncio.Task[ResultTable]:
    """Returns a query that sleeps; one whose timeout is over before it was seen to is asked again."""
    asleep = f"SELECT count(*) {_READERS} AND wait_event = 'PgSleep'"
    async with asyncio.timeout(WAIT_S):
        while True:
            slow = asyncio.create_task(runner.run("SELECT pg_sleep(60)", USER))
            while not slow.done():
                if await _count(fleet, asleep):
                    return slow
            with pytest.raises(ToolRefused, match="ran longer"):
                await slow


async def _count(fleet: Fleet, statement: str) -> int:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as superuser:
        row = await (await superuser.execute(statement.encode())).fetchone()
        assert row is not None
        return int(row[0])


async def _do(fleet: Fleet, statement: str) -> None:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as superuser:
        await superuser.execute(statement.encode())


async def test_overdue_queries_keep_their_connections_and_hold_up_their_own_caller_only(fleet: Fleet) -> None:
    await _do(fleet, _DEAF)
    async with _runner(fleet.reader_dsn, size=3, wait_s=2, timeout_ms=200) as (hurried, pool):
        await _connected(pool)
        runner = _over(pool, 20_000)  # for what has to succeed, however busy the machine
        deaf = [asyncio.create_task(hurried.run("SELECT public.deaf()", USER)) for _ in range(2)]
        for query in deaf:
            with pytest.raises(ToolRefused, match="ran longer than 200 ms"):
                await query
        while QUERIES_OVERDUE._value.get() < 2:  # noqa: ASYNC110 - a gauge has no event
            await asyncio.sleep(0.05)
        with pytest.raises(DatabaseBusy, match="2 queries of this caller") as busy:
            await runner.run(DEVICES, USER)
        assert busy.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        for _ in range(3):
            assert await _patiently(runner, OTHER) == [("11",)]
        # No new one in place of those that go on. One that has been left may take a moment to be gone.
        async with asyncio.timeout(WAIT_S):
            while await _count(fleet, _SESSIONS) != 3:  # noqa: ASYNC110 - the database has no event for it
                await asyncio.sleep(0.05)
        await _do(fleet, "INSERT INTO public.end_of_deafness VALUES (now())")
        while QUERIES_OVERDUE._value.get():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert await _patiently(runner, USER) == [("13",)]


async def test_what_closes_the_brackets_around_a_query_is_still_one_statement(fleet: Fleet) -> None:
    """Nothing checks here: it is the protocol that takes no second statement."""
    first = "SELECT 1) AS asked) AS result, (SELECT 1 AS size) AS measured, (SELECT 1) AS sent"
    second = "SELECT measured.size, sent.* FROM (SELECT * FROM (SELECT 1"
    async with _runner(fleet.reader_dsn) as (runner, _):
        with pytest.raises(ToolRefused) as refused:
            await runner.run(f"{first}; {second}", USER)
        assert "multiple commands" in refused.value.message
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]


async def test_an_overdue_query_whose_session_is_gone_gives_its_connection_back(fleet: Fleet) -> None:
    """The connection went silent: nothing will ever say that the query has ended."""
    way = Way(fleet.reader_dsn)
    async with _runner(await way.open(), timeout_ms=1000) as (hurried, pool):
        runner = _over(pool, 20_000)
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]
        slow = await _begun_to_sleep(fleet, hurried)
        way.silence()
        with pytest.raises(ToolRefused, match="ran longer"):
            await slow
        await _do(fleet, _END_SESSIONS)
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]
    await way.close()


async def test_a_login_that_fails_is_an_outage_and_no_answer(fleet: Fleet) -> None:
    other = psycopg.conninfo.make_conninfo(fleet.reader_dsn, password="another")
    async with _runner(other, wait_s=2) as (runner, _):
        with pytest.raises(DatabaseDown):
            await runner.run(DEVICES, USER)


async def test_a_caller_waits_for_a_turn(fleet: Fleet) -> None:
    async with _runner(fleet.reader_dsn, size=4) as (runner, _):
        answers = await asyncio.gather(*(runner.run(DEVICES, USER) for _ in range(12)))
        assert {str(answer.rows) for answer in answers} == {"[('13',)]"}


async def test_a_caller_holds_no_more_connections_than_theirs(fleet: Fleet) -> None:
    async with _runner(fleet.reader_dsn, size=4, wait_s=1) as (_, pool):
        await _connected(pool)
        first, second = [(await pool.take(USER))[0] for _ in range(2)]
        with pytest.raises(DatabaseBusy, match="of this caller"):
            await pool.take(USER)
        others, _ = await pool.take(OTHER)
        await first.rollback()
        await pool.give_back(first, USER)
        again, _ = await pool.take(USER)
        for connection, caller in ((second, USER), (again, USER), (others, OTHER)):
            await connection.rollback()
            await pool.give_back(connection, caller)


async def test_a_full_pool_is_not_a_lost_database(fleet: Fleet) -> None:
    async with _runner(fleet.reader_dsn, wait_s=0.5) as (runner, pool):
        await _connected(pool)
        connection, _ = await pool.take(OTHER)
        with pytest.raises(DatabaseBusy):
            await runner.run(DEVICES, USER)
        await connection.rollback()
        await pool.give_back(connection, OTHER)


async def test_connections_lost_in_the_pool_cost_no_query(fleet: Fleet) -> None:
    async with _runner(fleet.reader_dsn, size=4) as (runner, pool):
        await asyncio.gather(*(runner.run(DEVICES, caller) for caller in (USER, OTHER, USER, OTHER)))
        while pool.size < 4 or await _count(fleet, _SESSIONS) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await _do(fleet, _END_SESSIONS)
        for _ in range(8):
            assert (await runner.run(DEVICES, USER)).rows == [("13",)]


async def test_a_connection_that_went_silent_in_the_pool_costs_no_query(fleet: Fleet) -> None:
    way = Way(fleet.reader_dsn)
    async with _runner(await way.open()) as (runner, _):
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]
        way.silence()
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]
    await way.close()


async def test_the_first_query_after_the_databases_return_is_answered(fleet: Fleet) -> None:
    """While it is away every call says so, and none waits for a back-off when it is back."""
    way = Way(fleet.reader_dsn)
    async with _runner(await way.open(), size=2, wait_s=30) as (runner, _):
        assert (await runner.run(DEVICES, USER)).rows == [("13",)]
        for _ in range(2):
            await way.close()
            for _ in range(6):  # long enough for a back-off that doubles to be far behind
                with pytest.raises(DatabaseDown) as down:
                    await runner.run(DEVICES, USER)
                assert (down.value.code, down.value.reason) == (grpc.StatusCode.UNAVAILABLE, "DATABASE_DOWN")
            await way.open()
            assert (await runner.run(DEVICES, USER)).rows == [("13",)]
    await way.close()


async def test_a_database_that_is_away_at_first_is_said_so(fleet: Fleet) -> None:
    dsn = psycopg.conninfo.make_conninfo(fleet.reader_dsn, host="127.0.0.1", port=1)
    async with _runner(dsn) as (runner, _):
        with pytest.raises(DatabaseDown):
            await runner.run(DEVICES, USER)
