"""Behind a pooler a connection begins with the pooler's own process, and each transaction may be in another."""

from __future__ import annotations

import asyncio

import pytest

from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.server import check_secret
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.pgbouncer import Pooling, in_both_modes, needs_pgbouncer, pgbouncer
from tests.integration.sql_executor.fleet import CALLER, NEIGHBOUR, SECRET, Fleet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_pgbouncer]


@in_both_modes
async def test_callers_are_believed_and_kept_apart_behind_a_pooler(pooling: Pooling, fleet: Fleet) -> None:
    with pgbouncer({"fleet": fleet.reader_dsn}, pooling) as via:
        await check_callers(via["fleet"], fleet)


async def check_callers(dsn: str, fleet: Fleet) -> None:
    """That each caller is taken for who they are, of many at once."""
    async with reader_pool(dsn, min_size=0, max_size=4, wait_s=START_TIMEOUT_S) as pool:
        runner = QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)
        await check_secret(runner)

        async def ask(user: int) -> None:
            table = await runner.run("SELECT user_id FROM users", SqlCaller(str(user), is_admin=False))
            assert table.rows == [(str(user),)]

        await asyncio.gather(*(ask(user) for user in (CALLER, NEIGHBOUR, 22, 23, 24, 25) * 10))
        await runner.aclose()
