"""Plans that would grow beyond measure without fences, and how parts of a plan share memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.statement import statement_for
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet
from tests.unit.sql_executor.test_plans import FENCED, FITS, shortened

pytestmark = pytest.mark.asyncio(loop_scope="module")

_MOST_PLANNED_KB = 64 << 10
USER = SqlCaller(str(CALLER), is_admin=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(fleet: Fleet) -> AsyncIterator[QueryRunner]:
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        yield QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalog(fleet: Fleet) -> Catalog:
    async with await psycopg.AsyncConnection.connect(fleet.reader_dsn, autocommit=True) as connection:
        return await read_catalog(connection, fleet.policy)


@pytest.mark.parametrize("sql", FITS + FENCED, ids=shortened)
async def test_what_passes_is_planned_in_little_memory(sql: str, catalog: Catalog, fleet: Fleet) -> None:
    """Without the fences the first of them take gigabytes."""
    sent = statement_for(sql, USER, catalog).sql
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        await connection.execute("SET geqo_threshold = 8")
        cursor = await connection.execute(f"EXPLAIN (MEMORY, FORMAT JSON) {sent}".encode())
        (plan,) = (await cursor.fetchone() or ([{}],))[0]
    assert plan["Planning"]["Memory Used"] < _MOST_PLANNED_KB


async def test_a_fenced_statement_runs(catalog: Catalog, runner: QueryRunner) -> None:
    """Each of seven steps names the column of the one before ten times."""
    checked = statement_for(FENCED[2].replace("device_id AS g FROM devices", "0 AS g FROM ships"), USER, catalog)
    assert (await runner.run(checked.sql, USER, parts=checked.parts)).rows == [("12",)]


async def test_many_parts_of_a_plan_share_the_memory_of_a_few(fleet: Fleet, runner: QueryRunner) -> None:
    assert fleet.policy.limits.work_mem_kb == 4096
    for parts, shown in ((0, "4MB"), (12, "4MB"), (48, "1MB"), (1_000_000, "64kB"), (1, "4MB")):
        table = await runner.run("SELECT current_setting('work_mem')", USER, parts=parts)
        assert table.rows == [(shown,)]


async def test_the_order_of_many_tables_is_not_sought_among_all_there_are(runner: QueryRunner) -> None:
    assert (await runner.run("SELECT current_setting('geqo_threshold')", USER)).rows == [("8",)]
