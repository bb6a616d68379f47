"""Results too large to hold: what leaves the database is bounded, not only what is kept of it."""
# ruff: noqa: S608 - statements are what is run here

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.rows import ResultTable
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEGABYTES_40 = "replace(replace(repeat('x', 4000), 'x', repeat('y', 100)), 'y', repeat('z', 100))"


class Wire:
    """A way to the database that counts what comes back."""

    def __init__(self, host: str, port: int) -> None:
        self._database = (host, port)
        self.received_bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_database, to_database = await asyncio.open_connection(*self._database)
        await asyncio.gather(self._copy(reader, to_database), self._copy(from_database, writer, count=True))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, count: bool = False) -> None:
        while data := await source.read(1 << 16):
            self.received_bytes += len(data) if count else 0
            sink.write(data)
            await sink.drain()
        sink.close()


@asynccontextmanager
async def counted(dsn: str) -> AsyncIterator[tuple[str, Wire]]:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    wire = Wire(str(parts["host"]), int(str(parts["port"])))
    async with await asyncio.start_server(wire.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield psycopg.conninfo.make_conninfo("", **{**parts, "host": "127.0.0.1", "port": port}), wire


async def run(fleet: Fleet, statement: str) -> tuple[ResultTable, int]:
    async with counted(fleet.reader_dsn) as (dsn, wire), reader_pool(dsn, min_size=1, max_size=1, wait_s=60) as pool:
        limits = fleet.policy.limits.model_copy(update={"statement_timeout_ms": 20_000})
        table = await QueryRunner(pool, CallerSigner(SECRET), limits).run(statement, SqlCaller(str(CALLER), False))
        return table, wire.received_bytes


async def test_a_row_larger_than_the_byte_cap_stays_in_the_database(fleet: Fleet) -> None:
    table, received_bytes = await run(fleet, f"SELECT 1 AS n, {MEGABYTES_40} AS wide")
    assert (table.rows, table.truncated_by) == ([], "byte_cap")
    assert [name for name, _ in table.columns] == ["n", "wide"]
    assert received_bytes < fleet.policy.limits.byte_cap


async def test_what_fits_comes_before_it(fleet: Fleet) -> None:
    statement = f"SELECT n, CASE WHEN n = 3 THEN {MEGABYTES_40} ELSE 'x' END FROM generate_series(1, 9) n ORDER BY n"
    table, received_bytes = await run(fleet, statement)
    assert (table.rows, table.truncated_by) == ([("1", "x"), ("2", "x")], "byte_cap")
    assert received_bytes < fleet.policy.limits.byte_cap


async def test_a_value_with_a_long_text_form_counts_by_it(fleet: Fleet) -> None:
    """`1e100000` takes a few bytes in the database, and a hundred thousand on the way out of it."""
    table, received_bytes = await run(fleet, "SELECT array_agg(1e100000) FROM generate_series(1, 1000)")
    assert (table.rows, table.truncated_by) == ([], "byte_cap")
    assert received_bytes < fleet.policy.limits.byte_cap


async def test_a_row_as_large_as_the_cap_comes_whole(fleet: Fleet) -> None:
    """Quotes double in the form that is measured; the cap counts values as they are sent."""
    length = fleet.policy.limits.byte_cap
    table, _ = await run(fleet, f"SELECT repeat('\"', {length})")
    assert (len(table.rows[0][0] or ""), table.truncated_by) == (length, "")
    table, _ = await run(fleet, f"SELECT repeat('x', {length + 1})")
    assert (table.rows, table.truncated_by) == ([], "byte_cap")


async def test_rows_keep_their_order_and_their_names(fleet: Fleet) -> None:
    table, _ = await run(fleet, "SELECT name, name, NULL, 'x' FROM ships ORDER BY ship_id DESC -- as asked")
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        ships = await (await connection.execute("SELECT name FROM ships ORDER BY ship_id DESC")).fetchall()
    assert table.rows == [(name, name, None, "x") for (name,) in ships]
    assert [name for name, _ in table.columns] == ["name", "name", "?column?", "?column?"]


@pytest.mark.parametrize("name", ["result", "size", "asked", "sent", "measured"])
async def test_a_column_may_be_called_as_anything_around_the_statement(fleet: Fleet, name: str) -> None:
    """A name that stood for the row as well would be what is measured in its place."""
    table, _ = await run(fleet, f"SELECT NULL::text AS {name}, 7 AS n")
    assert (table.rows, table.truncated_by) == ([(None, "7")], "")
    table, received_bytes = await run(fleet, f"SELECT 1 AS {name}, {MEGABYTES_40} AS wide")
    assert (table.rows, table.truncated_by) == ([], "byte_cap")
    assert received_bytes < fleet.policy.limits.byte_cap
