"""Retention: ended runs lose first their older checkpoints, then the last one, then their events, at last themselves.

Decisions go by their own age, and never before the checkpoints. Everything is removed in small batches of one
transaction each, past rows that others hold, by one replica at a time.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from services.kit.logs import get_logger
from services.runtime.engine.background import attempt
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.identifiers import uuid7_floor
from services.runtime.engine.queries import query
from services.runtime.metrics import BYTES_REMOVED, BYTES_STORED, ROWS_REMOVED, ROWS_STORED

log = get_logger()
DEFAULT = "default"
# Between batches live runs have the database to themselves.
PAUSE_S = 0.05
# A decision is small next to a run with its checkpoints.
DECISIONS_PER_RUN = 20
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox retention', 2))"
_WAIT_FOR_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('signalbox retention', 2)) IS NOT NULL"


class Kind(StrEnum):
    """What is removed."""

    HISTORY = "history"
    CHECKPOINTS = "checkpoints"
    EVENTS = "events"
    RUNS = "runs"
    DECISIONS = "decisions"


class Stage(IntEnum):
    """How far retention has got with a run, the column `pruned`."""

    HISTORY = 1
    CHECKPOINTS = 2
    EVENTS = 3
    RUNS = 4


@dataclass(frozen=True)
class RetentionPolicy:
    """How long an agent's ended runs keep what they have, counted from their end. 0 is for ever."""

    history_minutes: float = 10
    checkpoint_days: float = 30
    event_days: float = 30
    run_days: float = 365
    decision_days: float = 365

    def __post_init__(self) -> None:
        """Raises ValueError when something would outlive what it rests on."""
        if min(vars(self).values()) < 0:
            raise ValueError("no age can be negative; 0 keeps for ever")
        ages = [self.age_s(stage) for stage in Stage]
        if ages != sorted(ages):
            raise ValueError("history_minutes, checkpoint_days, event_days and run_days must not fall in this order")
        if _seconds(days=self.decision_days) < self.age_s(Stage.CHECKPOINTS):
            raise ValueError("decision_days must not be less than checkpoint_days: decisions outlive checkpoints")

    def age_s(self, stage: Stage) -> float:
        """Returns the age at which an ended run enters a stage; infinite for never."""
        return {
            Stage.HISTORY: _seconds(minutes=self.history_minutes),
            Stage.CHECKPOINTS: _seconds(days=self.checkpoint_days),
            Stage.EVENTS: _seconds(days=self.event_days),
            Stage.RUNS: _seconds(days=self.run_days),
        }[stage]

    def oldest_kept(self) -> str | None:
        """Returns the least run id whose decisions are kept, by the time in it; None when all are."""
        age_s = _seconds(days=self.decision_days)
        return None if math.isinf(age_s) else uuid7_floor(datetime.now(UTC) - timedelta(seconds=age_s))


def _seconds(*, days: float = 0, minutes: float = 0) -> float:
    return days * 86_400 + minutes * 60 or math.inf


@dataclass(frozen=True)
class Removal:
    """How much of a kind was, or would be, removed."""

    kind: Kind
    agent: str
    row_count: int
    size_bytes: int


@dataclass(frozen=True)
class Batch:
    """What a batch removed, and whether there is likely to be more."""

    removals: list[Removal]
    more: bool


class Pruner:
    """Removes what the policies have no use for; `policies` by agent, `default` for all others."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        history: CheckpointHistory,
        policies: Mapping[str, RetentionPolicy],
        *,
        batch: int = 100,
    ) -> None:
        self._pool = pool
        self._history = history
        self._policies: dict[str | None, RetentionPolicy] = {
            None: policies.get(DEFAULT, RetentionPolicy()),
            **{agent: policy for agent, policy in policies.items() if agent != DEFAULT},
        }
        self._named = [agent for agent in self._policies if agent is not None]
        self._batch = batch

    async def due(self) -> list[Removal]:
        """Returns what would be removed now."""
        policies = [
            {
                "agent": agent,
                "others": self._named,
                **{f"{stage.name.lower()}_s": _finite(policy.age_s(stage)) for stage in Stage},
                "oldest_kept": policy.oldest_kept(),
            }
            for agent, policy in self._policies.items()
        ]
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("prunable"), {"policies": orjson.dumps(policies).decode()})
            rows = await cursor.fetchall()
        return [Removal(Kind(kind), agent, count, int(size)) for kind, agent, count, size in rows]

    async def prune(self, *, wait: bool = False) -> Batch | None:
        """Removes one batch. Returns None while another replica prunes, unless asked to wait for it."""
        async with self._pool.connection() as connection, connection.transaction():
            cursor = await connection.execute(_WAIT_FOR_LOCK if wait else _LOCK)
            locked = await cursor.fetchone()
            if not locked or not locked[0]:
                return None
            found, more = Counter[tuple[Kind, str]](), False
            sizes = Counter[tuple[Kind, str]]()
            for agent, policy in self._policies.items():
                for stage in Stage:
                    runs = await self._due_runs(connection, agent, policy, stage)
                    more |= sum(len(run_ids) for run_ids in runs.values()) >= self._batch
                    for run_agent, run_ids in runs.items():
                        for removal in await self._remove(connection, stage, run_agent, run_ids):
                            found[removal.kind, run_agent] += removal.row_count
                            sizes[removal.kind, run_agent] += removal.size_bytes
                for removal in await self._remove_decisions(connection, agent, policy):
                    more |= removal.row_count >= self._batch * DECISIONS_PER_RUN
                    found[removal.kind, removal.agent] += removal.row_count
                    sizes[removal.kind, removal.agent] += removal.size_bytes
        removals = [Removal(kind, agent, found[kind, agent], sizes[kind, agent]) for kind, agent in sorted(found)]
        return Batch(_counted(removal for removal in removals if removal.row_count), more)

    async def measure(self) -> None:
        """Sets the metrics of what is stored; rows as Postgres estimates them."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("stored"))
            for table, row_count, size_bytes in await cursor.fetchall():
                ROWS_STORED.labels(table).set(row_count)
                BYTES_STORED.labels(table).set(size_bytes)

    async def _due_runs(
        self, connection: AsyncConnection[Any], agent: str | None, policy: RetentionPolicy, stage: Stage
    ) -> dict[str, list[str]]:
        age_s = policy.age_s(stage)
        if math.isinf(age_s):
            return {}
        parameters = {
            "from_stages": list(range(stage)),
            "age_s": age_s,
            "next_age_s": None if stage is Stage.RUNS else _finite(policy.age_s(Stage(stage + 1))),
            "agent": agent,
            "others": self._named,
            "limit": self._batch,
        }
        cursor = await connection.execute(query("runs_to_prune"), parameters)
        runs: dict[str, list[str]] = defaultdict(list)
        for run_id, run_agent in await cursor.fetchall():
            runs[run_agent].append(run_id)
        return runs

    async def _remove(
        self, connection: AsyncConnection[Any], stage: Stage, agent: str, run_ids: list[str]
    ) -> list[Removal]:
        async def remove(kind: Kind, **parameters: Any) -> Removal:
            cursor = await connection.execute(query(f"prune_{kind}"), {"run_ids": run_ids, **parameters})
            row_count, size_bytes = await cursor.fetchone() or (0, 0)
            return Removal(kind, agent, row_count, int(size_bytes))

        removals = []
        if stage is Stage.HISTORY:
            removals.append(await self._remove_history(connection, agent, run_ids))
        else:
            removals.append(await remove(Kind.CHECKPOINTS))
        if stage >= Stage.EVENTS:
            removals.append(await remove(Kind.EVENTS, last=stage is Stage.RUNS))
        if stage is Stage.RUNS:
            cursor = await connection.execute(query("lock_threads_of_runs"), {"run_ids": run_ids})
            threads = await cursor.fetchall()
            removals.append(await remove(Kind.RUNS))
            subjects, thread_ids = [subject for subject, _ in threads], [thread_id for _, thread_id in threads]
            await connection.execute(query("prune_threads"), {"subjects": subjects, "thread_ids": thread_ids})
        else:
            await connection.execute("UPDATE runs SET pruned = %s WHERE run_id = ANY (%s::uuid[])", [stage, run_ids])
        return removals

    async def _remove_history(self, connection: AsyncConnection[Any], agent: str, run_ids: list[str]) -> Removal:
        before = await self._size(connection, run_ids)
        await self._history.prune(run_ids, "keep_latest")
        after = await self._size(connection, run_ids)
        return Removal(Kind.HISTORY, agent, before[0] - after[0], before[1] - after[1])

    async def _size(self, connection: AsyncConnection[Any], run_ids: list[str]) -> tuple[int, int]:
        cursor = await connection.execute(query("size_of_checkpoints"), {"run_ids": run_ids})
        row_count, size_bytes = await cursor.fetchone() or (0, 0)
        return row_count, int(size_bytes)

    async def _remove_decisions(
        self, connection: AsyncConnection[Any], agent: str | None, policy: RetentionPolicy
    ) -> list[Removal]:
        if (oldest_kept := policy.oldest_kept()) is None:
            return []
        limit = self._batch * DECISIONS_PER_RUN
        parameters = {"oldest_kept": oldest_kept, "agent": agent, "others": self._named, "limit": limit}
        cursor = await connection.execute(query("prune_decisions"), parameters)
        return [Removal(Kind.DECISIONS, name, count, int(size)) for name, count, size in await cursor.fetchall()]


@asynccontextmanager
async def pruning(pruner: Pruner, *, interval_s: float) -> AsyncIterator[None]:
    """Prunes in the background inside the context."""
    task = asyncio.create_task(_prune_now_and_then(pruner, interval_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _prune_now_and_then(pruner: Pruner, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await attempt("prune", _prune_all(pruner))


async def _prune_all(pruner: Pruner) -> None:
    batch = await pruner.prune()
    if batch is None:
        # Another replica does it, and says how much is stored.
        ROWS_STORED.clear()
        BYTES_STORED.clear()
        return
    while batch and batch.more:
        await asyncio.sleep(PAUSE_S)
        batch = await pruner.prune()
    await pruner.measure()


def _counted(removals: Iterable[Removal]) -> list[Removal]:
    counted = list(removals)
    for removal in counted:
        ROWS_REMOVED.labels(removal.kind, removal.agent).inc(removal.row_count)
        BYTES_REMOVED.labels(removal.kind, removal.agent).inc(max(0, removal.size_bytes))
        log.info("pruned", kind=removal.kind, agent=removal.agent, rows=removal.row_count, bytes=removal.size_bytes)
    return counted


def _finite(age_s: float) -> float | None:
    return None if math.isinf(age_s) else age_s
