"""Connections to the platform database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

APPLICATION_NAME = "signalbox-runtime"
OPEN_TIMEOUT_S = 15
# psycopg's own default: a statement is prepared when it comes back this often.
PREPARE_THRESHOLD = 5


@asynccontextmanager
async def open_pool(dsn: str, *, size: int, prepare: bool = True) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """Opens a pool in autocommit mode: a statement is a transaction unless one is begun."""
    pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
        dsn,
        min_size=min(2, size),
        max_size=size,
        kwargs={
            "autocommit": True,
            "prepare_threshold": PREPARE_THRESHOLD if prepare else None,
            "application_name": APPLICATION_NAME,
        },
        open=False,
    )
    async with pool:
        await pool.wait(OPEN_TIMEOUT_S)
        yield pool
