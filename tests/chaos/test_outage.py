"""Something is away for longer than leases and back-offs last: no run fails, and all end once it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment, until
from tests.chaos.full_disk import tables_full
from tests.chaos.load import Load
from tests.chaos.script import script
from tests.fixtures.scripted_model import Reply
from tests.fixtures.stack import AGENT_MODEL, GUARD_MODEL

pytestmark = pytest.mark.faults

CONCURRENCY = 10
# More than any outage here; a caller who has waited for longer is given up by the test.
OUTAGE_TIMEOUT_S = 240.0
# The runs under way that have waited for what is away, by now, for so long.
_WAITING = """
    SELECT FROM platform.runs, LATERAL (
        SELECT sum((call->>'elapsed_ms')::float) / 1000 AS waited_s
        FROM jsonb_array_elements(attempts) AS call WHERE call->>'kind' = 'wait'
    ) AS waits
    WHERE state IN ('PENDING', 'RUNNING') AND waited_s >= %s
"""
Away = Callable[[Deployment], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def executor_away(deployed: Deployment) -> AsyncIterator[None]:
    """The executor is dead."""
    await deployed.executor.kill()
    try:
        yield
    finally:
        await deployed.executor.start()


@asynccontextmanager
async def guards_model_away(deployed: Deployment) -> AsyncIterator[None]:
    """The guard's model ends every connection without an answer."""
    deployed.model.respond(GUARD_MODEL, lambda _: Reply.drop())
    try:
        yield
    finally:
        script(deployed.model)


@asynccontextmanager
async def agents_model_away(deployed: Deployment) -> AsyncIterator[None]:
    """The agent's model is overloaded; not the one that words answers, which nothing waits for."""
    deployed.model.respond(AGENT_MODEL, lambda _: Reply.http_error(503))
    try:
        yield
    finally:
        script(deployed.model)


@pytest.mark.parametrize("away", [executor_away, guards_model_away, agents_model_away])
async def test_runs_wait_for_what_they_call(deployed: Deployment, extent: Extent, away: Away) -> None:
    load = Load(deployed, concurrency=CONCURRENCY)

    async def all_have_waited() -> bool:
        return len(await deployed.rows(_WAITING, extent.outage_s)) >= CONCURRENCY

    async with load.running():
        await load.more(CONCURRENCY)
        async with away(deployed):
            await until(all_have_waited, "every run to wait", timeout_s=OUTAGE_TIMEOUT_S)
        await load.more(2 * CONCURRENCY)
    await check(deployed, load.told)
    assert sum(told.waited for told in load.told) >= CONCURRENCY
    assert {told.run.epoch for told in load.told if not told.waited} == {1}


@asynccontextmanager
async def database_away(deployed: Deployment) -> AsyncIterator[None]:
    """The platform's database is stopped."""
    await asyncio.to_thread(deployed.postgres.stop)
    yield
    await asyncio.to_thread(deployed.postgres.start)


@asynccontextmanager
async def disk_full(deployed: Deployment) -> AsyncIterator[None]:
    """The platform's database has no room for more."""
    async with tables_full(deployed.dsn):
        yield


@pytest.mark.parametrize("away", [database_away, disk_full])
async def test_the_platforms_database_is_away(deployed: Deployment, extent: Extent, away: Away) -> None:
    load = Load(deployed, concurrency=CONCURRENCY, callers_reconnect=True)
    pids = [service.pid for service in deployed.stack.services]
    async with load.running():
        await load.more(CONCURRENCY)
        async with away(deployed):
            over_at = time.monotonic() + extent.outage_s

            async def over() -> bool:
                return time.monotonic() >= over_at

            await until(over, "every lease to end", timeout_s=OUTAGE_TIMEOUT_S)
        await load.more(2 * CONCURRENCY)
    await check(deployed, load.told)
    assert [service.pid for service in deployed.stack.services if service.running] == pids, "a service ended meanwhile"
