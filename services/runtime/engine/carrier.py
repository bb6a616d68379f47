"""Runs that were begun on another graph than this replica's: which of them it can carry on.

A run records the digest of the graph that last went on with it. Runs of the own digest, and those that have not begun,
are anybody's. Of the others the checkpoint decides, which is checked once for every claim that it has outlived. What no
replica can carry waits for one that can.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg_pool import AsyncConnectionPool

from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import stop
from services.runtime.engine.background import SELDOM, attempt
from services.runtime.engine.compatibility import problems_of_run
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.metrics import RUNS_NOT_CARRIED
from services.runtime.routing.graph import AgentGraph

log = get_logger()
# Checkpoints that are read in one go, between which the runs that are executed have the replica to themselves.
PAGE = 50
PAUSE_S = 0.05
BEFORE_ALL = ("-infinity", str(UUID(int=0)))


@dataclass(frozen=True)
class Claimable:
    """What a replica may claim: runs of its graphs, by agent and digest, and others by run id and epoch."""

    graphs: Mapping[str, str]
    carried: Mapping[str, int] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        """As statements get it."""
        return {
            "graphs": orjson.dumps(dict(self.graphs)).decode(),
            "carried": orjson.dumps(dict(self.carried)).decode(),
        }


@dataclass(frozen=True)
class _Finding:
    """What came of a run's checkpoint as it was at an epoch."""

    agent: str
    epoch: int
    fits: bool


class Carrier:
    """Looks for runs of other graphs, and knows which of them the installed graphs can go on with."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serde: SerializerProtocol,
        graphs: Mapping[str, AgentGraph],
        lost: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`lost` are agents whose runs are no longer this replica's, although it has their graphs."""
        self._pool = pool
        self._history = CheckpointHistory(pool, serde)
        self._graphs = graphs
        self._lost = lost
        self._versions = {name: graph.version for name, graph in graphs.items()}
        self._found: dict[str, _Finding] = {}
        self._counted: set[str] = set()
        self._wanted = asyncio.Event()

    @property
    def claimable(self) -> Claimable:
        """What this replica may claim now."""
        return Claimable(
            {name: version for name, version in self._versions.items() if self.is_here(name)},
            {run_id: each.epoch for run_id, each in self._found.items() if each.fits and self.is_here(each.agent)},
        )

    def is_here(self, agent: str) -> bool:
        """Whether runs of an agent are this replica's: it has the graph, and no other pool has taken the name."""
        return agent in self._versions and agent not in self._lost()

    @asynccontextmanager
    async def looking(self, *, interval_s: float) -> AsyncIterator[None]:
        """Looks again and again inside the context."""
        task = asyncio.create_task(self._look_now_and_then(interval_s))
        try:
            yield
        finally:
            await stop(task)

    def look_soon(self) -> None:
        """Has it look before it would by itself: there are pending runs."""
        self._wanted.set()

    async def look(self) -> None:
        """Looks once at all that there are. Raises DatabaseAway."""
        seen: set[str] = set()
        after: tuple[datetime | str, str] = BEFORE_ALL
        while page := await self._page(after):
            for run_id, agent, graph_version, epoch, created_at in page:
                seen.add(run_id)
                after = created_at, run_id
                known = self._found.get(run_id)
                if known is None or known.epoch != epoch:
                    self._found[run_id] = await self._check(run_id, agent, graph_version, epoch)
            if len(page) < PAGE:
                break
            await asyncio.sleep(PAUSE_S)
        self._found = {run_id: each for run_id, each in self._found.items() if run_id in seen}
        self._count()

    async def _look_now_and_then(self, interval_s: float) -> None:
        while True:
            self._wanted.clear()
            await attempt("look_for_begun_runs", self.look())
            await asyncio.sleep(interval_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s * SELDOM):
                    await self._wanted.wait()

    async def _page(self, after: tuple[datetime | str, str]) -> list[tuple[str, str, str, int, datetime]]:
        parameters = {**Claimable(self._versions).parameters, "limit": PAGE}
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                query("begun_elsewhere"), {**parameters, "after_created": after[0], "after_run_id": after[1]}
            )
            rows: list[tuple[str, str, str, int, datetime]] = await cursor.fetchall()
            return rows

    async def _check(self, run_id: str, agent: str, graph_version: str, epoch: int) -> _Finding:
        problems = await problems_of_run(self._history, run_id, agent, self._graphs)
        if problems:
            log.warning(
                "a run waits for another graph",
                run_id=run_id,
                agent=agent,
                graph_version=graph_version,
                problems=problems,
            )
        return _Finding(agent, epoch, fits=not problems)

    def _count(self) -> None:
        waiting = Counter(each.agent for each in self._found.values() if not each.fits)
        self._counted |= set(waiting)
        for agent in self._counted:
            RUNS_NOT_CARRIED.labels(agent).set(waiting[agent])
