"""Plans that would grow beyond measure: what the planner does not look into, and how parts of a plan share memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import read_catalog
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.statement import statement_for
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet
from tests.unit.sql_executor.test_plans import FITS

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = SqlCaller(str(CALLER), is_admin=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(fleet: Fleet) -> AsyncIterator[QueryRunner]:
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        yield QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)


@pytest.mark.parametrize("sql", FITS[-2:], ids=["materialized", "offset"])
async def test_columns_of_a_query_that_is_planned_by_itself_are_not_repeated(
    sql: str, fleet: Fleet, runner: QueryRunner
) -> None:
    """Each of nine steps names the column of the one before ten times: a billion nodes, were they put together."""
    async with await psycopg.AsyncConnection.connect(fleet.reader_dsn, autocommit=True) as connection:
        catalog = await read_catalog(connection, fleet.policy)
    checked = statement_for(sql, USER, catalog)
    # Without the caller's devices there is nothing whose sum could be too large.
    emptied = checked.sql.replace("AS g FROM devices WHERE", "AS g FROM devices WHERE false AND")
    assert emptied != checked.sql
    assert (await runner.run(emptied, USER, parts=checked.parts)).rows == [("0",)]


async def test_many_parts_of_a_plan_share_the_memory_of_a_few(fleet: Fleet, runner: QueryRunner) -> None:
    assert fleet.policy.limits.work_mem_kb == 4096
    for parts, shown in ((0, "4MB"), (12, "4MB"), (48, "1MB"), (1_000_000, "64kB"), (1, "4MB")):
        table = await runner.run("SELECT current_setting('work_mem')", USER, parts=parts)
        assert table.rows == [(shown,)]


async def test_the_order_of_many_tables_is_not_sought_among_all_there_are(runner: QueryRunner) -> None:
    assert (await runner.run("SELECT current_setting('geqo_threshold')", USER)).rows == [("8",)]
