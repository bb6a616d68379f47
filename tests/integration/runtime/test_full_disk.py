"""A database without room for more: told as what it is, and waited for."""

from __future__ import annotations

import pytest

from services.runtime.engine.database import open_pool
from services.runtime.errors import DatabaseAway

_FULL = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"


async def fill(dsn: str) -> None:
    async with open_pool(dsn, size=1) as pool, pool.connection() as connection:
        await connection.execute(_FULL)


async def test_a_full_disk_is_said_to_be_one(database: str) -> None:
    with pytest.raises(DatabaseAway, match="has no room left") as caught:
        await fill(database)
    assert caught.value.retryable
