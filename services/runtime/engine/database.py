"""Connections to the platform database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool

from services.runtime.errors import DatabaseAway

APPLICATION_NAME = "signalbox-runtime"
OPEN_TIMEOUT_S = 15
# psycopg's own default: a statement is prepared when it comes back this often.
PREPARE_THRESHOLD = 5
# A database that does not acknowledge what it is sent counts as away after some seconds, not after TCP's quarter hour.
NOTICE_LOSS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class PlatformPool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool that tells apart what is wrong with a statement and that the database is away."""

    @asynccontextmanager
    async def connection(self, timeout: float | None = None) -> AsyncIterator[AsyncConnection[Any]]:  # noqa: ASYNC109 - the base's parameter
        """Lends a connection. Raises DatabaseAway, also for what happens inside the context."""
        try:
            async with super().connection(timeout) as connection:
                try:
                    yield connection
                except ReadOnlySqlTransaction:
                    # A primary that has become a standby: another connection may find the new one.
                    await connection.close()
                    raise
        except (psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction) as error:
            raise DatabaseAway("the platform database can't be reached; try again") from error


@asynccontextmanager
async def open_pool(dsn: str, *, size: int, prepare: bool = True) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """Opens a pool in autocommit mode: a statement is a transaction unless one is begun."""
    pool = PlatformPool(
        dsn,
        min_size=min(2, size),
        max_size=size,
        kwargs={
            "autocommit": True,
            "prepare_threshold": PREPARE_THRESHOLD if prepare else None,
            "application_name": APPLICATION_NAME,
            **NOTICE_LOSS,
        },
        open=False,
    )
    async with pool:
        await pool.wait(OPEN_TIMEOUT_S)
        yield pool
