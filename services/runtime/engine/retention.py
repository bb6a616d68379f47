"""Retention: ended runs lose first their older checkpoints, then the last one, then their events and
questions, at last themselves.

Decisions go by their own age, as changes of limits do, and never while their run has not ended for as long. Everything
is removed in small batches of one transaction each, past rows that others hold, by one replica at a time. It is done by
the runtime's policies; only the first stage reads what is stored, and of a pool's graphs the pool does that.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
from psycopg import AsyncConnection

from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.wire.tasks import stop
from services.runtime.engine.background import attempt
from services.runtime.engine.database import PlatformPool, unhurried
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.partitions import drop_partitions, make_partitions
from services.runtime.engine.queries import query
from services.runtime.engine.retention_policy import DEFAULT, RetentionPolicy, Stage
from services.runtime.errors import DatabaseAway
from services.runtime.metrics import (
    BYTES_REMOVED,
    BYTES_STORED,
    HISTORY_UNREADABLE,
    PRUNE_LAG,
    ROWS_REMOVED,
    ROWS_STORED,
)
from services.runtime.settings import RUNTIME

log = get_logger()
# Between batches live runs have the database to themselves.
PAUSE_S = 0.05
# A batch that hangs is given up; so is a round, which the next one goes on with.
BATCH_LIMIT_S = 900.0
ROUND_LIMIT_S = 6 * 3600.0
# A decision is small next to a run with its checkpoints.
DECISIONS_PER_RUN = 20
ITEMS_PER_RUN = 10
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 2))"
_WAIT_FOR_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 2)) IS NOT NULL"
_LOCK_NAME = "signalbox retention"


class RetainedData(StrEnum):
    """What is removed."""

    HISTORY = "history"
    CHECKPOINTS = "checkpoints"
    EVENTS = "events"
    QUESTIONS = "questions"
    RUNS = "runs"
    DECISIONS = "decisions"
    STORE = "store"
    LIMIT_CHANGES = "limit_changes"


from_zero(ROWS_REMOVED, RetainedData)
from_zero(BYTES_REMOVED, RetainedData)


@dataclass(frozen=True)
class Removal:
    """How much of a kind was, or would be, removed."""

    kind: RetainedData
    agent: str
    row_count: int
    size_bytes: int


@dataclass(frozen=True)
class Batch:
    """What a batch removed, and whether there is likely to be more."""

    removals: list[Removal]
    more: bool


class _Tally:
    """What a batch removes, by kind and agent."""

    def __init__(self) -> None:
        self._rows, self._sizes = Counter[tuple[RetainedData, str]](), Counter[tuple[RetainedData, str]]()

    def add(self, removal: Removal) -> None:
        self._rows[removal.kind, removal.agent] += removal.row_count
        self._sizes[removal.kind, removal.agent] += removal.size_bytes

    def removals(self) -> list[Removal]:
        return [Removal(*key, rows, self._sizes[key]) for key, rows in sorted(self._rows.items()) if rows]


class Pruner:
    """Removes what the policies have no use for; `policies` by agent, `default` for all others.

    A pool's removes only the history of its own `agents`.
    """

    def __init__(
        self,
        pool: PlatformPool,
        history: CheckpointHistory,
        policies: Mapping[str, RetentionPolicy],
        *,
        batch: int = 100,
        pool_name: str = RUNTIME,
        agents: Collection[str] = (),
    ) -> None:
        self._pool = pool
        self._is_pools = pool_name != RUNTIME
        self._lock_name = f"{_LOCK_NAME} of {pool_name}" if self._is_pools else _LOCK_NAME
        self._pool_name = pool_name
        self._history = history
        default = policies.get(DEFAULT, RetentionPolicy())
        self._policies: dict[str | None, RetentionPolicy] = {
            None: default,
            **{agent: policy for agent, policy in policies.items() if agent != DEFAULT},
        }
        self._histories = {agent: policies.get(agent, default) for agent in agents}
        self._named = [agent for agent in self._policies if agent is not None]
        self._batch = batch
        self._lag_s = 0.0

    async def due(self) -> list[Removal]:
        """Returns what would be removed now."""
        policies = [
            {
                "agent": agent,
                "others": self._named,
                **{f"{stage.name.lower()}_s": _finite(policy.age_s(stage)) for stage in Stage},
                "oldest_kept": policy.oldest_kept(),
                "decided_until": policy.decided_until(),
            }
            for agent, policy in self._policies.items()
        ]
        async with unhurried(self._pool) as connection:
            cursor = await connection.execute(query("prunable"), {"policies": orjson.dumps(policies).decode()})
            rows = await cursor.fetchall()
        return [Removal(RetainedData(kind), agent, count, int(size)) for kind, agent, count, size in rows]

    async def prune(self, *, wait: bool = False) -> Batch | None:
        """Removes one batch. Returns None while another replica prunes, unless asked to wait for it."""
        tally = _Tally()
        if self._is_pools:
            return await self._prune_histories(tally, wait=wait)
        # By itself, and done at once: until it is, nobody takes a step.
        if not await self._drop_partitions(tally, wait=wait):
            return None
        async with unhurried(self._pool) as connection:
            more = await self._locked(connection, wait=wait) and await self._prune_rows(connection, tally)
        return Batch(_counted(tally.removals()), more)

    async def _prune_histories(self, tally: _Tally, *, wait: bool) -> Batch | None:
        async with unhurried(self._pool) as connection:
            if not await self._locked(connection, wait=wait):
                return None
            self._lag_s, more = 0.0, False
            for agent, policy in self._histories.items():
                more |= await self._prune_stage(connection, tally, agent, policy, Stage.HISTORY)
            PRUNE_LAG.set(self._lag_s)
        return Batch(_counted(tally.removals()), more)

    async def _prune_rows(self, connection: AsyncConnection[Any], tally: _Tally) -> bool:
        """Returns whether there is likely to be more."""
        self._lag_s, more = 0.0, False
        for agent, policy in self._policies.items():
            for stage in Stage:
                more |= await self._prune_stage(connection, tally, agent, policy, stage)
            decisions = await self._remove_decisions(connection, agent, policy)
            more |= sum(removal.row_count for removal in decisions) >= self._batch * DECISIONS_PER_RUN
            for removal in decisions:
                tally.add(removal)
            changes = await self._remove_limit_changes(connection, agent, policy)
            more |= sum(removal.row_count for removal in changes) >= self._batch
            for removal in changes:
                tally.add(removal)
        await connection.execute(query("forget_limits"))
        await self._remove_empty_threads(connection)
        cursor = await connection.execute(query("prune_store"), {"limit": self._batch * ITEMS_PER_RUN})
        items: list[tuple[str, int, float]] = await cursor.fetchall()
        # The limit is that of all agents' together.
        more |= sum(row_count for _, row_count, _ in items) >= self._batch * ITEMS_PER_RUN
        for agent_of, row_count, size_bytes in items:
            tally.add(Removal(RetainedData.STORE, agent_of, row_count, int(size_bytes)))
        PRUNE_LAG.set(self._lag_s)
        return more

    async def _remove_empty_threads(self, connection: AsyncConnection[Any]) -> None:
        """Removes threads that were only named, once they are as old as a run may become."""
        if (age_s := _finite(self._policies[None].age_s(Stage.RUNS))) is None:
            return
        async with connection.transaction():
            cursor = await connection.execute(query("lock_empty_threads"), {"age_s": age_s, "limit": self._batch})
            threads = await cursor.fetchall()
            subjects, thread_ids = [subject for subject, _ in threads], [thread_id for _, thread_id in threads]
            await connection.execute(query("prune_threads"), {"subjects": subjects, "thread_ids": thread_ids})

    async def _prune_stage(
        self, connection: AsyncConnection[Any], tally: _Tally, agent: str | None, policy: RetentionPolicy, stage: Stage
    ) -> bool:
        """Returns whether there is likely to be more of a stage."""
        runs = await self._due_runs(connection, agent, policy, stage)
        for run_agent, run_ids in runs.items():
            for removal in await self._remove(connection, stage, run_agent, run_ids):
                tally.add(removal)
        return sum(len(run_ids) for run_ids in runs.values()) >= self._batch

    async def make_partitions(self) -> None:
        """Makes the partitions of the weeks ahead, unless another replica is at it; a pool's makes none."""
        if self._is_pools:
            return
        async with unhurried(self._pool) as connection:
            if await self._locked(connection, wait=False):
                await make_partitions(connection)

    async def _drop_partitions(self, tally: _Tally, *, wait: bool) -> bool:
        """Returns whether this replica may prune."""
        # By the policy that keeps decisions for the longest time.
        longest = max(self._policies.values(), key=lambda policy: policy.decision_days or math.inf)
        async with unhurried(self._pool) as connection:
            if not await self._locked(connection, wait=wait):
                return False
            for agent, row_count, size_bytes in await drop_partitions(
                connection, longest.oldest_kept(), longest.decided_until()
            ):
                tally.add(Removal(RetainedData.DECISIONS, agent, row_count, size_bytes))
        return True

    async def erase_store(self, subject: str) -> int:
        """Deletes what stores hold of a caller; returns how many items went."""
        async with unhurried(self._pool) as connection:
            cursor = await connection.execute(query("erase_store"), {"subject": subject})
            row = await cursor.fetchone()
            return int(row[0]) if row else 0

    async def measure(self) -> None:
        """Sets the metrics of what is stored; rows as Postgres estimates them. The runtime's replicas say it."""
        if self._is_pools:
            return
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
            "is_read": stage is Stage.HISTORY,
            "pool": self._pool_name,
            "limit": self._batch,
        }
        cursor = await connection.execute(query("runs_to_prune"), parameters)
        runs: dict[str, list[str]] = defaultdict(list)
        for run_id, run_agent, ended_s in await cursor.fetchall():
            runs[run_agent].append(run_id)
            self._lag_s = max(self._lag_s, ended_s - age_s)
        return runs

    async def _remove(
        self, connection: AsyncConnection[Any], stage: Stage, agent: str, run_ids: list[str]
    ) -> list[Removal]:
        async def remove(kind: RetainedData, **parameters: Any) -> Removal:
            cursor = await connection.execute(query(f"prune_{kind}"), {"run_ids": run_ids, **parameters})
            row_count, size_bytes = await cursor.fetchone() or (0, 0)
            return Removal(kind, agent, row_count, int(size_bytes))

        removals = []
        if stage is Stage.HISTORY:
            removals.append(await self._remove_history(connection, agent, run_ids))
        else:
            removals.append(await remove(RetainedData.CHECKPOINTS))
        if stage >= Stage.EVENTS:
            removals.append(await remove(RetainedData.EVENTS, last=stage is Stage.RUNS))
            removals.append(await remove(RetainedData.QUESTIONS))
        if stage is Stage.RUNS:
            cursor = await connection.execute(query("lock_threads_of_runs"), {"run_ids": run_ids})
            threads = await cursor.fetchall()
            removals.append(await remove(RetainedData.RUNS))
            subjects, thread_ids = [subject for subject, _ in threads], [thread_id for _, thread_id in threads]
            await connection.execute(query("prune_threads"), {"subjects": subjects, "thread_ids": thread_ids})
        else:
            await connection.execute(
                "UPDATE platform.runs SET pruned = %s WHERE run_id = ANY (%s::uuid[])", [stage, run_ids]
            )
        return removals

    async def _remove_history(self, connection: AsyncConnection[Any], agent: str, run_ids: list[str]) -> Removal:
        before = await self._size(connection, run_ids)
        for run_id in run_ids:
            try:
                await self._history.prune([run_id], "keep_latest")
            except DatabaseAway:
                raise
            except Exception as error:  # whatever makes what is stored unreadable, the others are pruned
                # Later stages remove it without reading it; until then somebody may want to know why.
                HISTORY_UNREADABLE.labels(agent).inc()
                log.exception(
                    "a run's checkpoints can't be read; they stay as they are", run_id=run_id, error=str(error)
                )
        after = await self._size(connection, run_ids)
        return Removal(RetainedData.HISTORY, agent, before[0] - after[0], before[1] - after[1])

    async def _size(self, connection: AsyncConnection[Any], run_ids: list[str]) -> tuple[int, int]:
        cursor = await connection.execute(query("size_of_checkpoints"), {"run_ids": run_ids})
        row_count, size_bytes = await cursor.fetchone() or (0, 0)
        return row_count, int(size_bytes)

    async def _remove_decisions(
        self, connection: AsyncConnection[Any], agent: str | None, policy: RetentionPolicy
    ) -> list[Removal]:
        if (oldest_kept := policy.oldest_kept()) is None:
            return []
        parameters = {
            "oldest_kept": oldest_kept,
            "decided_until": policy.decided_until(),
            "agent": agent,
            "others": self._named,
            "limit": self._batch * DECISIONS_PER_RUN,
        }
        cursor = await connection.execute(query("prune_decisions"), parameters)
        return [
            Removal(RetainedData.DECISIONS, name, count, int(size)) for name, count, size in await cursor.fetchall()
        ]

    async def _remove_limit_changes(
        self, connection: AsyncConnection[Any], agent: str | None, policy: RetentionPolicy
    ) -> list[Removal]:
        decided_until = policy.decided_until()
        parameters = {"agent": agent, "others": self._named, "decided_until": decided_until, "limit": self._batch}
        cursor = await connection.execute(query("prune_limit_changes"), parameters)
        return [
            Removal(RetainedData.LIMIT_CHANGES, name, count, int(size)) for name, count, size in await cursor.fetchall()
        ]

    async def _locked(self, connection: AsyncConnection[Any], *, wait: bool) -> bool:
        cursor = await connection.execute(_WAIT_FOR_LOCK if wait else _LOCK, [self._lock_name])
        locked = await cursor.fetchone()
        return bool(locked and locked[0])


@asynccontextmanager
async def pruning(pruner: Pruner, *, interval_s: float) -> AsyncIterator[None]:
    """Prunes in the background inside the context."""
    task = asyncio.create_task(_prune_now_and_then(pruner, interval_s))
    try:
        yield
    finally:
        await stop(task)


async def _prune_now_and_then(pruner: Pruner, interval_s: float) -> None:
    while True:
        await attempt("make_partitions", pruner.make_partitions(), limit_s=BATCH_LIMIT_S)
        await asyncio.sleep(interval_s)
        await attempt("prune", _prune_all(pruner), limit_s=ROUND_LIMIT_S)


async def _prune_all(pruner: Pruner) -> None:
    batch = await _one_batch(pruner)
    if batch is None:
        # Another replica does it, and says how much is stored.
        ROWS_STORED.clear()
        BYTES_STORED.clear()
        PRUNE_LAG.set(0)
        return
    while batch and batch.more:
        await asyncio.sleep(PAUSE_S)
        batch = await _one_batch(pruner)
    await pruner.measure()


async def _one_batch(pruner: Pruner) -> Batch | None:
    async with asyncio.timeout(BATCH_LIMIT_S):
        return await pruner.prune()


def _counted(removals: Iterable[Removal]) -> list[Removal]:
    counted = list(removals)
    for removal in counted:
        ROWS_REMOVED.labels(removal.kind).inc(removal.row_count)
        BYTES_REMOVED.labels(removal.kind).inc(max(0, removal.size_bytes))
        log.info("pruned", kind=removal.kind, agent=removal.agent, rows=removal.row_count, bytes=removal.size_bytes)
    return counted


def _finite(age_s: float) -> float | None:
    return None if math.isinf(age_s) else age_s
