"""The harbour world: the same rows every time, and every example in its file runs on them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples.harbour import load as harbour
from services.sql_executor.example_file import ExampleEntry, read_example_file
from services.sql_executor.policy import load_policy
from tests.fixtures.postgres import TemplateDatabase

FOLDER = Path(harbour.__file__).parent
EXAMPLES = read_example_file(FOLDER / "examples.yaml").examples
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


async def prepare(dsn: str) -> None:
    assert await harbour.load(dsn)


@pytest.fixture
async def world(template_database: TemplateDatabase) -> AsyncIterator[Connection]:
    dsn = await template_database("harbour", prepare)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


async def rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(statement)).fetchall()


async def test_it_is_large_and_always_the_same(world: Connection) -> None:
    assert await rows(world, "SELECT count(*), min(recorded_at)::date::text FROM device_readings") == [
        (111_030, "2025-12-20")
    ]
    digest = "SELECT md5(string_agg(r::text, '' ORDER BY reading_id)) FROM device_readings AS r"
    assert await rows(world, digest) == [("79ca0589ff40141c16dd4f4d326ba5e5",)]


async def test_users_see_different_worlds(world: Connection) -> None:
    counts = dict(
        await rows(
            world,
            "SELECT user_id, count(*) FILTER (WHERE temperature > 10) FROM user_device_assignment"
            " JOIN device_current_data USING (device_id) WHERE user_id IN (27, 31) GROUP BY user_id",
        )
    )
    assert counts == {27: 6, 31: 7}
    assert await rows(world, "SELECT count(*) FROM device_current_data WHERE temperature > 10") == [(79,)]
    shared = (
        "SELECT device_id FROM user_device_assignment WHERE user_id IN (27, 31) GROUP BY device_id HAVING count(*) = 2"
    )
    assert await rows(world, shared) == [(40,)]
    unassigned = "SELECT device_id FROM devices EXCEPT SELECT device_id FROM user_device_assignment ORDER BY 1"
    assert await rows(world, unassigned) == [(117,), (118,), (119,), (120,)]


async def test_current_data_is_the_latest_reading(world: Connection) -> None:
    latest = (
        "SELECT count(*) FROM device_current_data AS c JOIN device_readings AS r"
        " ON (r.device_id, r.recorded_at) = (c.device_id, c.updated_at)"
        " AND (r.temperature, r.battery) = (c.temperature, c.battery)"
        " WHERE NOT EXISTS (SELECT FROM device_readings AS n WHERE n.device_id = c.device_id"
        " AND n.recorded_at > c.updated_at)"
    )
    assert await rows(world, latest) == await rows(world, "SELECT count(*) FROM device_current_data")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.question)
async def test_every_example_runs_and_finds_something(world: Connection, example: ExampleEntry) -> None:
    await world.execute("SET TRANSACTION READ ONLY")
    found = await rows(world, example.sql)
    assert found
    assert any(value is not None for row in found for value in row)


async def test_no_example_reads_a_restricted_table() -> None:
    policy = load_policy(FOLDER / "sql_policy.yaml")
    for example in EXAMPLES:
        assert not [table for table in policy.restricted if table in example.sql.replace(",", " ").split()]


async def test_loading_again_changes_nothing(template_database: TemplateDatabase) -> None:
    dsn = await template_database("harbour", prepare)
    assert not await harbour.load(dsn)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert await rows(connection, "SELECT count(*) FROM ships") == [(12,)]


async def test_two_loaders_at_once_load_one_world(database: str) -> None:
    assert sorted(await asyncio.gather(harbour.load(database), harbour.load(database))) == [False, True]


async def test_a_database_with_other_tables_is_refused(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("CREATE TABLE users (name text)")
    with pytest.raises(harbour.NotEmptyError, match="already holds users"):
        await harbour.load(database)
    async with await psycopg.AsyncConnection.connect(database) as connection:
        assert await rows(connection, "SELECT to_regclass('public.ships')") == [(None,)]


def test_the_command_says_what_it_did(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [harbour.main([database]), harbour.main([database])] == [0, 0]
    assert capsys.readouterr().out == "harbour: loaded\nharbour: already there\n"
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    assert harbour.main(["host=127.0.0.1 port=1 dbname=none"]) == 1
    assert "harbour: connection failed" in capsys.readouterr().err
