"""The liveness lock: Postgres frees it with the connection, so a replica that dies is noticed at once.

On that connection, which is past any pooler, the replica also listens for news of runs that its callers watch, and of
pending runs of its agents.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.abc import RV, PQGen
from psycopg.types.json import Jsonb

from services.kit.wire.silence import NOTICE_LOSS, NOTICE_LOSS_THERE
from services.kit.wire.tasks import stop
from services.runtime.engine.background import attempt
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.database import APPLICATION_NAME
from services.runtime.engine.offers import WORK_CHANNEL

# A connection that says nothing is looked at for the clock's sake; one that breaks says so by itself.
CHECK_INTERVAL_S = 3.0
TAKE_AGAIN_S = 1.0
# After a connection was lost, Postgres itself may have been away, and with it the locks of all: in so long, whoever
# lives has its lock again.
SETTLE_S = 5.0
# Postgres cuts names of channels after 63 characters; the end of an owner's name is what tells it from others.
CHANNEL_PREFIX, CHANNEL_SUFFIX_LENGTH = "signalbox:", 48
# Not with the connection's start, where a pooler may refuse what it does not know.
_SET = "SELECT set_config(key, value, false) FROM jsonb_each_text(%s) JOIN pg_settings ON name = key"


class _Listening(AsyncConnection[Any]):
    """A connection that waits until something comes: psycopg looks ten times a second whether it is interrupted."""

    async def wait(self, gen: PQGen[RV], interval: float = CHECK_INTERVAL_S, timeout: float | None = None) -> RV:  # noqa: ASYNC109 - the base's parameter
        return await super().wait(gen, interval, timeout)


class LivenessLock:
    """Holds a session-level advisory lock on the replica's name, on a connection that also tells the time."""

    # Called with what another replica tells, as in `watches.py`, and with None when some may have been missed.
    on_news: Callable[[str | None], None] = staticmethod(lambda _told: None)
    # Called with the agent that runs are pending of.
    on_work: Callable[[str], None] = staticmethod(lambda _agent: None)

    def __init__(self, dsn: str, owner: str, clock: ClockWatch | None = None) -> None:
        self._dsn = dsn
        self._owner = owner
        self._clock = clock or ClockWatch(0)
        self._connection: AsyncConnection[Any] | None = None
        self._connected_at = math.inf

    @property
    def settled(self) -> bool:
        """Whether a lock that nobody holds says that its replica is gone."""
        return asyncio.get_running_loop().time() - self._connected_at >= SETTLE_S

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Holds the lock inside the context, and takes it again when the connection breaks."""
        await self._take()
        self._connected_at = -math.inf  # nothing was lost
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            await stop(keeping)
            if self._connection is not None:
                await self._connection.close()

    async def _take(self) -> None:
        self._connected_at = math.inf
        connection = await _Listening.connect(
            self._dsn, autocommit=True, application_name=f"{APPLICATION_NAME}-liveness", **NOTICE_LOSS
        )
        self._connected_at = asyncio.get_running_loop().time()
        try:
            await connection.execute(_SET, [Jsonb(NOTICE_LOSS_THERE)])
            # A session of before that Postgres still takes for alive has the lock; this may be cut off while it waits.
            await connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [self._owner])
            channel = sql.Identifier(CHANNEL_PREFIX + self._owner[-CHANNEL_SUFFIX_LENGTH:])
            for each in (channel, sql.Identifier(WORK_CHANNEL)):
                await connection.execute(sql.SQL("LISTEN {}").format(each))
        except BaseException:
            await connection.close()
            raise
        # Only now: what stands here is believed to hold the lock for as long as it is open.
        self._connection = connection
        self.on_news(None)
        await self._clock.compare(connection)

    async def _keep(self) -> None:
        while True:
            if self._connection is None or self._connection.closed:
                await asyncio.sleep(TAKE_AGAIN_S)
            else:
                await attempt("listen", self._listen(self._connection))
            await attempt("liveness", self._check())

    async def _listen(self, connection: AsyncConnection[Any]) -> None:
        async for told in connection.notifies(timeout=CHECK_INTERVAL_S):
            tell = self.on_work if told.channel == WORK_CHANNEL else self.on_news
            tell(told.payload)

    async def _check(self) -> None:
        if self._connection is None or self._connection.closed:
            await self._take()
            return
        try:
            await self._clock.compare(self._connection)
        except (psycopg.Error, asyncio.CancelledError):
            self._connected_at = math.inf
            await self._connection.close()
            raise
