"""What other replicas are to tell this one: the runs that its callers watch and that it does not execute.

They are registered in the table `watches`, and who writes an event of one notifies this replica. What was missed, for
whatever reason, is found by asking: for all watched runs in one statement, every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from services.kit.wire.tasks import stop
from services.runtime.engine.array_literal import array_literal
from services.runtime.engine.background import attempt
from services.runtime.engine.chunk_post import CALLED, ChunkPost, PayloadReader
from services.runtime.engine.database import Pools
from services.runtime.engine.events import EventStream
from services.runtime.engine.queries import query

ASK_INTERVAL_S = 3.0
# Before the id of a run whose chunks another replica asks for; `watch_runs.sql` says it.
ASKED = "chunks:"
# Before the id of a run that is to stop; `cancel_run.sql` says it.
STOPPED = "cancel:"
# Who begins to watch often does so together with others.
GATHER_S = 0.02
# A statement that began before a watch was registered may commit after it, and tell nobody.
YOUNG_S = 1.0
ASK_YOUNG_INTERVAL_S = 0.25


class Watches:
    """Registers what is watched on this replica, and has the watchers look when there is news."""

    def __init__(self, pools: Pools, events: EventStream, owner: str) -> None:
        self._pool = pools.upkeep
        self._events = events
        self._owner = owner
        self._post = ChunkPost(pools, events)
        self._payloads = PayloadReader()
        # With whether the chunks of each are asked for.
        self._registered: dict[str, bool] = {}
        self._anew = True
        self._young: dict[str, float] = {}
        self._next_ask = 0.0

    def news(self, told: str | None) -> None:
        """Takes what another replica tells: that a run has news or is to stop, chunks of one, or that it asks for such.

        None: that some of it may have been missed.
        """
        if told is None:
            self._next_ask = 0.0
            self._begin_anew()
        elif told.startswith(ASKED):
            self._events.asked_elsewhere(told.removeprefix(ASKED))
        elif told.startswith(STOPPED):
            self._events.on_cancel(told.removeprefix(STOPPED))
        elif told.startswith(("{", CALLED)):
            for chunk in self._payloads.chunks_of(told):
                self._events.tell_here(chunk)
        else:
            self._events.look([told])

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keeps the table up to date inside the context, asks now and then, and sends chunks to other replicas."""
        keeping = [asyncio.create_task(self._keep()), asyncio.create_task(self._post.send())]
        try:
            yield
        finally:
            await stop(*keeping)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pause_s = self._next_ask - loop.time()
            try:
                async with asyncio.timeout(min(pause_s, ASK_YOUNG_INTERVAL_S) if self._young else pause_s):
                    await self._events.changed.wait()
                await asyncio.sleep(GATHER_S)
            except TimeoutError:
                pass  # it is time to ask
            if not await attempt("watches", self._round(loop.time())):
                self._begin_anew()
                await asyncio.sleep(ASK_YOUNG_INTERVAL_S)

    async def _round(self, now: float) -> None:
        changes = self._events.changes()
        if self._anew:
            await self._execute("unwatch_runs", None)
            self._registered.clear()
            self._anew = False
        self._registered.update(dict.fromkeys(self._events.registered(), True))
        wanted = {run_id: each.chunks for run_id, each in changes.items() if each.news}
        # Of chunks, too, who comes to others is told what is being said.
        added = {run_id: chunks for run_id, chunks in wanted.items() if chunks or self._registered.get(run_id, True)}
        gone = [run_id for run_id in changes if run_id not in wanted and run_id in self._registered]
        if gone:
            await self._execute("unwatch_runs", gone)
            for run_id in gone:
                del self._registered[run_id]
        if added:
            await self._execute("watch_runs", added, chunks=array_literal(str(each) for each in added.values()))
            self._registered.update(added)
            self._young.update(dict.fromkeys(added, now))
        if now >= self._next_ask:
            await self._ask(None)
            await self._check_registered()
            self._next_ask = asyncio.get_running_loop().time() + ASK_INTERVAL_S
        elif self._young:
            await self._ask(self._young)
        self._young = {run_id: since for run_id, since in self._young.items() if now - since < YOUNG_S}

    async def _execute(self, name: str, run_ids: Collection[str] | None, **more: str) -> None:
        parameters = {"owner": self._owner, "run_ids": None if run_ids is None else array_literal(run_ids), **more}
        async with self._pool.connection() as connection:
            await connection.execute(query(name), parameters)

    async def _ask(self, run_ids: Collection[str] | None) -> None:
        """Asks about some of the watched runs, or all."""
        seen = self._events.seen()
        watched = [run_id for run_id in (seen if run_ids is None else run_ids) if run_id in seen]
        if not watched:
            return
        parameters = {"run_ids": array_literal(watched), "seen": array_literal(str(seen[run_id]) for run_id in watched)}
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("news_of_runs"), parameters)
            self._events.look([run_id for (run_id,) in await cursor.fetchall()])

    async def _check_registered(self) -> None:
        """Registers anew when others have taken this replica for gone, or the server has crashed."""
        if not self._registered:
            return
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("count_watches"), {"owner": self._owner})
            [[count]] = await cursor.fetchall()
        if count != len(self._registered):
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._anew = True
        self._events.all_changed()
