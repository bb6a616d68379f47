"""A statement prepared before a migration changed what it returns: tried again, on a connection that then goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import FeatureNotSupported
from psycopg_pool import AsyncConnectionPool

from services.kit.dsn import PREPARE_THRESHOLD
from services.runtime.engine.database import open_pool
from services.runtime.errors import DatabaseAway

Pool = AsyncConnectionPool[Any]
# No statement of ours says `*`; a column that changes its type would do the same to one that names it.
SELECT = "SELECT * FROM platform.threads"


@pytest.fixture
async def prepared(platform_dsn: str) -> AsyncIterator[Pool]:
    """A pool of one connection, which has prepared a statement whose result then changed."""
    async with open_pool(platform_dsn, size=1) as pool:
        async with pool.connection() as connection:
            for _ in range(PREPARE_THRESHOLD + 1):
                await connection.execute(SELECT)
        with psycopg.connect(platform_dsn, autocommit=True) as migration:
            migration.execute("ALTER TABLE platform.threads ADD COLUMN later text")
        yield pool


async def backend(pool: Pool) -> int:
    async with pool.connection() as connection:
        return int(connection.info.backend_pid)


async def test_it_is_tried_once_more_outside_a_transaction(prepared: Pool) -> None:
    before = await backend(prepared)
    async with prepared.connection() as connection:
        cursor = await connection.execute(SELECT)
        assert [column.name for column in cursor.description or ()][-1] == "later"
    assert await backend(prepared) != before, "the connection with the stale statement is still in use"


async def test_inside_a_transaction_the_caller_is_told_to_try_again(prepared: Pool) -> None:
    async def insert_and_look() -> int:
        async with prepared.connection() as connection, connection.transaction():
            await connection.execute("INSERT INTO platform.threads (subject, thread_id) VALUES ('27', 'talk')")
            cursor = await connection.execute(SELECT)
            return len(await cursor.fetchall())

    before = await backend(prepared)
    with pytest.raises(DatabaseAway) as failed:
        await insert_and_look()
    assert failed.value.retryable
    assert await backend(prepared) != before
    assert await insert_and_look() == 1, "nothing of the first attempt stays, and the second finds nothing stale"


async def test_what_postgres_does_not_support_at_all_is_no_stale_statement(prepared: Pool) -> None:
    before = await backend(prepared)
    with pytest.raises(FeatureNotSupported):
        async with prepared.connection() as connection:
            await connection.execute("SELECT DISTINCT thread_id FROM platform.threads FOR UPDATE")
    assert await backend(prepared) == before
