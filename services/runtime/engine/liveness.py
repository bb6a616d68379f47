"""The liveness lock: Postgres frees it with the connection, so a replica that dies is noticed at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection

from services.runtime.engine.background import attempt
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.database import APPLICATION_NAME, NOTICE_LOSS

CHECK_INTERVAL_S = 1.0


class LivenessLock:
    """Holds a session-level advisory lock on the replica's name, on a connection that also tells the time."""

    def __init__(self, dsn: str, owner: str, clock: ClockWatch | None = None) -> None:
        self._dsn = dsn
        self._owner = owner
        self._clock = clock or ClockWatch(0)
        self._connection: AsyncConnection[Any] | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Holds the lock inside the context, and takes it again when the connection breaks."""
        await self._take()
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            if self._connection is not None:
                await self._connection.close()

    async def _take(self) -> None:
        self._connection = await AsyncConnection.connect(
            self._dsn, autocommit=True, application_name=f"{APPLICATION_NAME}-liveness", **NOTICE_LOSS
        )
        await self._connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [self._owner])
        await self._clock.compare(self._connection)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await attempt("liveness", self._check())

    async def _check(self) -> None:
        try:
            if self._connection is None or self._connection.closed:
                await self._take()
            else:
                await self._clock.compare(self._connection)
        except psycopg.Error:
            if self._connection is not None:
                await self._connection.close()
            raise
