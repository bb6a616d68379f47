"""Behind a pooler in transaction mode a statement must not rely on one that was prepared in another transaction."""

from __future__ import annotations

import pytest

from services.runtime.engine.database import PlatformPool, open_pool
from tests.integration.runtime.conftest import AGENTS, OwnerStore, new_run

REPEATS = 12


async def use(pool: PlatformPool) -> int:
    """Has a run go round and round; returns how many statements its session has prepared by then."""
    store = OwnerStore(pool, "somebody", suspect_after=2 * REPEATS)
    other = OwnerStore(pool, "somebody else", suspect_after=2 * REPEATS)
    run, _ = await store.create(new_run(), claim=True)
    for _ in range(REPEATS):
        await store.upkeep.renew_leases([run.run_id])
        await store.release(run)
        [run] = await store.upkeep.claim_pending(1, AGENTS)
        await store.get(run.run_id, run.caller)
        await other.upkeep.take_over()
        [run] = await store.upkeep.claim_pending(1, AGENTS)  # its owner holds no liveness lock
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM pg_prepared_statements")
        [[prepared]] = await cursor.fetchall()
    return int(prepared)


@pytest.mark.parametrize("prepare", [True, False])
async def test_statements_are_prepared_only_where_they_may_be(platform_dsn: str, prepare: bool) -> None:
    async with open_pool(platform_dsn, size=1, prepare=prepare) as pool:
        assert (await use(pool) > 0) is prepare
