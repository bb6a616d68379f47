"""Legitimate queries pass, with the right rows for a user and for an admin, and the caps cut what is too much."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from signalbox.v1 import table_pb2, tools_pb2

from services.kit.identity.caller import Caller
from services.sql_executor.rows import ResultTable, text_results
from tests.integration.sql_executor.analyst_queries import ANALYST_QUERIES
from tests.integration.sql_executor.conftest import ADMIN, USER, Executor
from tests.integration.sql_executor.fleet import CALLER, NEIGHBOUR, Fleet, leaks

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def statement_timeout_ms() -> int:
    """One query here ends by nothing else."""
    return 5000


# The caller's rows under the tables' own names, for a superuser: what the reader must see through row-level security.
_MINE = """
    CREATE SCHEMA mine;
    CREATE TABLE mine.devices AS SELECT * FROM public.devices
        WHERE device_id IN (SELECT device_id FROM public.user_device_assignment WHERE user_id = 27);
    ALTER TABLE mine.devices ADD PRIMARY KEY (device_id);
    CREATE VIEW mine.device_current_data AS SELECT * FROM public.device_current_data
        WHERE device_id IN (SELECT device_id FROM mine.devices);
    CREATE VIEW mine.device_readings AS SELECT * FROM public.device_readings
        WHERE device_id IN (SELECT device_id FROM mine.devices);
    CREATE VIEW mine.users AS SELECT user_id, name, email, created_at FROM public.users WHERE user_id = 27;
    CREATE SCHEMA every;
    CREATE VIEW every.users AS SELECT user_id, name, email, created_at FROM public.users;
"""


async def _expected(fleet: Fleet, sql: str, schema: str) -> table_pb2.Table:
    """What a superuser gets for the text itself, on the rows of a schema."""
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, context=text_results()) as connection:
        await connection.execute(_MINE)
        await connection.execute(f"SET LOCAL search_path = {schema}, public")
        await connection.execute("SET LOCAL TimeZone = 'UTC'")
        cursor = await connection.execute(sql.replace("public.", "").rstrip(";").encode())
        table = ResultTable.of(cursor.description or (), fleet.policy.limits)
        for row in await cursor.fetchall():
            if not table.add(row):
                break
        await connection.rollback()
        return table.to_proto()


@pytest.mark.parametrize("sql", ANALYST_QUERIES)
async def test_user_and_admin_get_their_rows(executor: Executor, fleet: Fleet, sql: str) -> None:
    mine = await executor.query(sql, USER)
    every = await executor.query(sql, ADMIN)
    assert not mine.HasField("error"), mine.error
    assert not every.HasField("error"), every.error
    assert _comparable(mine) == await _comparable_expected(fleet, sql, "mine")
    assert _comparable(every) == await _comparable_expected(fleet, sql, "every")
    assert not leaks(str(mine.output.table))


def _comparable(response: tools_pb2.CallToolResponse) -> tuple[list[str], list[str], bool]:
    table = response.output.table
    return [str(column) for column in table.columns], [str(row) for row in table.rows], table.truncated


async def _comparable_expected(fleet: Fleet, sql: str, schema: str) -> tuple[list[str], list[str], bool]:
    return _comparable(
        tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(table=await _expected(fleet, sql, schema)))
    )


async def test_the_shown_sql_ran_and_names_the_filter(executor: Executor) -> None:
    output = (await executor.query("SELECT count(*) FROM devices d WHERE d.status = 'active' OR 1 = 1")).output
    assert output.sql_query == (
        "SELECT count(*) FROM devices d WHERE (d.status = 'active' OR 1 = 1) AND d.device_id IN "
        "(SELECT device_id FROM signalbox.user_device_assignment WHERE user_id = 27)"
    )
    assert output.text == "rows: 1\ncount\n13"
    shown = (await executor.query("SELECT count(*) FROM devices", ADMIN)).output.sql_query
    assert shown == "SELECT count(*) FROM devices"


async def test_values_keep_their_types(executor: Executor) -> None:
    sql = (
        "SELECT 9007199254740993 AS big, 0.10 AS exact, 1.5::double precision AS real, 'ä|\n' AS words, TRUE AS yes, "
        "NULL::integer AS nothing, timestamptz '2026-01-31 12:00:00.5+02' AS instant, date '2026-01-31' AS day, "
        "timestamp '2026-01-31 12:00' AS local, interval '90 minutes' AS span, ARRAY[1, 2] AS list, "
        "'\"x\"'::json AS doc"
    )
    table = (await executor.query(sql)).output.table
    cells = dict(zip([column.name for column in table.columns], table.rows[0].values, strict=True))
    kinds = {column.name: table_pb2.ColumnType.Name(column.type)[12:] for column in table.columns}
    assert cells["big"].int_value == 9007199254740993
    assert cells["exact"].text_value == "0.10"
    assert cells["real"].double_value == 1.5
    assert cells["words"].text_value == "ä|\n"
    assert cells["yes"].bool_value is True
    assert cells["nothing"].WhichOneof("value") is None
    assert cells["instant"].text_value == "2026-01-31T10:00:00.5Z"
    assert (cells["day"].text_value, cells["local"].text_value) == ("2026-01-31", "2026-01-31 12:00:00")
    assert (cells["span"].text_value, cells["list"].text_value, cells["doc"].text_value) == ("01:30:00", "{1,2}", '"x"')
    assert list(kinds.values()) == [
        "INT", "NUMERIC", "DOUBLE", "TEXT", "BOOL", "INT", "TIMESTAMP", "DATE", "OTHER", "OTHER", "OTHER", "OTHER",
    ]  # fmt: skip


async def test_the_row_cap_cuts_and_says_so(executor: Executor) -> None:
    output = (await executor.query("SELECT reading_id FROM device_readings")).output
    assert (len(output.table.rows), output.truncated, output.table.truncated_by) == (200, True, "row_cap")
    assert "truncated: row_cap" in output.text
    exact = (await executor.query("SELECT reading_id FROM device_readings LIMIT 200")).output
    assert (len(exact.table.rows), exact.truncated, exact.table.truncated_by) == (200, False, "")


async def test_the_byte_cap_cuts_and_says_so(executor: Executor) -> None:
    wide = "SELECT (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 10000) g) FROM generate_series(1, 10)"
    output = (await executor.query(wide)).output
    assert (len(output.table.rows), output.truncated, output.table.truncated_by) == (3, True, "byte_cap")
    assert "truncated: byte_cap" in output.text


async def test_a_long_value_is_whole_in_the_table_and_cut_in_the_text(executor: Executor) -> None:
    output = (await executor.query("SELECT string_agg('word', ' ') AS words FROM generate_series(1, 10000)")).output
    assert len(output.table.rows[0].values[0].text_value) == 49_999
    assert output.text.endswith("… (49999 characters)")
    assert len(output.text) < 1100
    assert not output.truncated


async def test_a_slow_query_is_stopped_and_its_connection_lives_on(executor: Executor) -> None:
    slow = await executor.query("SELECT count(*) FROM device_readings a, device_readings b, device_readings c")
    assert (slow.error.reason, slow.error.retryable) == ("timeout", True)
    assert (await executor.query("SELECT count(*) FROM devices")).output.text == "rows: 1\ncount\n13"


async def test_callers_that_share_connections_never_see_each_other(executor: Executor) -> None:
    """Twelve callers at a time over a pool of two connections."""

    async def ask(user: int) -> None:
        response = await executor.query("SELECT DISTINCT user_id FROM users", Caller(str(user)))
        rows = [row.values[0].int_value for row in response.output.table.rows]
        assert rows == [user], response

    for _ in range(5):
        users = [CALLER, NEIGHBOUR, 22, 23, 24, 25] * 2
        everyone = asyncio.create_task(executor.query("SELECT count(*) FROM users", ADMIN))
        await asyncio.gather(*(ask(user) for user in users))
        admin = await everyone
        assert admin.output.table.rows[0].values[0].int_value == 41
