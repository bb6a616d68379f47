"""Connections to the platform database, for the tables of batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.batches.errors import BatchDatabaseAway
from services.kit.postgres import make_pool
from services.kit.telemetry.pool_metrics import shown

APPLICATION_NAME: Final = "signalbox-batches"
OPEN_TIMEOUT_S: Final = 15.0
# The longest that what is done with a connection may take. Kept to here and not by the server: its sessions may be a
# pooler's. A statement under way is cancelled.
WITHIN_S: Final = 60.0
DELETES_WITHIN_S: Final = 600.0
Pool: TypeAlias = AsyncConnectionPool[AsyncConnection[dict[str, Any]]]


@asynccontextmanager
async def open_pool(dsn: str, *, size: int) -> AsyncIterator[Pool]:
    """Opens a pool in autocommit mode; nothing is prepared, so that its sessions may be a pooler's."""
    pool: Pool = make_pool(
        dsn, APPLICATION_NAME, prepare=False, parameters={"row_factory": dict_row}, min_size=1, max_size=size,
        name="batches",
    )  # fmt: skip
    async with pool:
        await pool.wait(OPEN_TIMEOUT_S)
        with shown(pool):
            yield pool


@asynccontextmanager
async def connected(pool: Pool, within_s: float = WITHIN_S) -> AsyncIterator[AsyncConnection[dict[str, Any]]]:
    """Lends a connection. Raises BatchDatabaseAway, also for what happens inside the context, or takes too long."""
    try:
        async with asyncio.timeout(within_s), pool.connection() as connection:
            yield connection
    except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
        raise BatchDatabaseAway("the platform database can't be reached; try again", retry_after_s=1.0) from error
