"""Reading checkpoints back, and removing them: whatever is kept stays loadable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import orjson
import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.changes import History, Stored, pack_changes, unpack_writes
from services.runtime.engine.kept_rows import KeptRows, Row, RunRows
from services.runtime.engine.queries import query
from services.runtime.engine.step_tasks import TaskWrites


@dataclass(frozen=True)
class Steps:
    """Which steps of a run, and how many at most: those after one and before another, from the first or the last on."""

    limit: int
    after: int | None = None
    before: int | None = None
    newest_first: bool = False

    def holds(self, step: int) -> bool:
        """Whether a step is one of them."""
        return (self.after is None or step > self.after) and (self.before is None or step < self.before)


class StepEnd(NamedTuple):
    """The checkpoint that ends a step, and the one that it began with, each with what tasks wrote on top."""

    found: CheckpointTuple
    before: CheckpointTuple | None = None
    writes: Sequence[TaskWrites] = ()
    writes_before: Sequence[TaskWrites] = ()


class CheckpointHistory:
    """The checkpoints in the database; of those that `after_steps` reads, the rows are kept for who reads on."""

    def __init__(self, pool: AsyncConnectionPool[Any], serde: SerializerProtocol) -> None:
        self._pool = pool
        self._serde = serde
        self._kept = KeptRows(serde)

    async def load(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> CheckpointTuple | None:
        """Returns one checkpoint of a thread, by default the latest."""
        async with self._pool.connection() as connection:
            rows = await self._rows(connection, thread_id, namespace)
            wanted = [row for row in rows if checkpoint_id in (None, row["checkpoint_id"])][-1:]
            if not wanted:
                return None
            writes = await self._writes(connection, thread_id, namespace, wanted)
        history = History(self._serde, (row["changes"] for row in rows))
        return self._tuple(thread_id, namespace, wanted[0], history, writes)

    async def select(
        self,
        config: RunnableConfig | None,
        *,
        metadata_filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yields the checkpoints that fit, newest first."""
        configurable = config["configurable"] if config else {}
        parameters = {
            "thread_id": configurable.get("thread_id"),
            "checkpoint_ns": configurable.get("checkpoint_ns"),
            "checkpoint_id": get_checkpoint_id(config) if config else None,
            "before": get_checkpoint_id(before) if before else None,
            "metadata": orjson.dumps(metadata_filter or {}).decode(),
            "limit": limit,
        }
        async with self._pool.connection() as connection, connection.transaction():
            # One moment for all that is read: retention may be moving values from row to row.
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("list_checkpoints"), parameters)
            found = await cursor.fetchall()
            for thread_id, namespace in dict.fromkeys((row["thread_id"], row["checkpoint_ns"]) for row in found):
                wanted = [row for row in found if (row["thread_id"], row["checkpoint_ns"]) == (thread_id, namespace)]
                rows = await self._rows(connection, thread_id, namespace)
                writes = await self._writes(connection, thread_id, namespace, wanted)
                history = History(self._serde, (row["changes"] for row in rows))
                for each in reversed(self._tuples(thread_id, namespace, reversed(wanted), history, writes)):
                    yield each

    async def after_steps(self, thread_id: str, wanted: Steps, *, with_tasks: bool = False) -> list[StepEnd]:
        """Returns the checkpoints of a thread that end some of its steps; with what tasks wrote where that is asked."""
        async with self._pool.connection() as connection:
            read = await self._rows_on(connection, thread_id)
            fitting = [row for row in read.rows if wanted.holds(row["metadata"].get("step", 0))]
            chosen = fitting[-wanted.limit :] if wanted.newest_first else fitting[: wanted.limit]
            ids = {row[name] for row in chosen for name in ("checkpoint_id", "parent_checkpoint_id")} - {None}
            writes = await self._writes_of_tasks(connection, thread_id, "", sorted(ids)) if with_tasks else {}
        found = [self._end_of_step(thread_id, row, read, writes, with_tasks=with_tasks) for row in chosen]
        if chosen:
            # What comes next is put together from these.
            read.history.forget_all_but(_body(chosen[-1])["channel_versions"])
        return found[::-1] if wanted.newest_first else found

    async def _rows_on(self, connection: AsyncConnection[Any], thread_id: str) -> RunRows:
        """Returns the rows of a thread, of which only those are read that are not kept."""
        if known := self._kept.of(thread_id):
            cursor = connection.cursor(row_factory=dict_row)
            place = {"thread_id": thread_id, "checkpoint_ns": "", "ends": known.ends}
            last = {name: known.rows[-1][name] for name in ("ordinal", "checkpoint_id")}
            await cursor.execute(query("later_checkpoint_rows"), {**place, **last}, binary=True)
            if read := self._kept.read_on(thread_id, known, await cursor.fetchall()):
                return read
        return self._kept.read_anew(thread_id, await self._rows(connection, thread_id, ""))

    def _end_of_step(
        self, thread_id: str, row: Row, read: RunRows, writes: Mapping[str, list[TaskWrites]], *, with_tasks: bool
    ) -> StepEnd:
        found = self._tuple(thread_id, "", row, read.history, {})
        before = read.by_id.get(row["parent_checkpoint_id"] or "")
        if before is None or not with_tasks:
            return StepEnd(found, None, writes.get(row["checkpoint_id"], ()))
        return StepEnd(
            found,
            self._tuple(thread_id, "", before, read.history, {}),
            writes.get(row["checkpoint_id"], ()),
            writes.get(before["checkpoint_id"], ()),
        )

    async def writes_of_tasks(self, thread_id: str, checkpoint_id: str) -> Sequence[TaskWrites]:
        """Returns what tasks have written on top of a checkpoint of a thread."""
        async with self._pool.connection() as connection:
            found = await self._writes_of_tasks(connection, thread_id, "", [checkpoint_id])
        return found.get(checkpoint_id, ())

    async def namespaces_below(self, thread_id: str, checkpoint_id: str) -> list[str]:
        """Returns the namespaces of the graphs inside nodes that have begun on top of a thread's checkpoint."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                query("namespaces_below"), {"thread_id": thread_id, "checkpoint_id": checkpoint_id}
            )
            return [namespace for (namespace,) in await cursor.fetchall()]

    async def delete_threads(self, thread_ids: Sequence[str]) -> None:
        """Deletes all of some threads."""
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("DELETE FROM platform.checkpoints WHERE thread_id = ANY(%s)", [list(thread_ids)])
            await connection.execute(
                "DELETE FROM platform.checkpoint_writes WHERE thread_id = ANY(%s)", [list(thread_ids)]
            )

    async def copy_thread(self, source: str, target: str) -> None:
        """Copies all of a thread."""
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(query("copy_checkpoints"), {"source": source, "target": target})
            await connection.execute(query("copy_checkpoint_writes"), {"source": source, "target": target})

    async def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints whose metadata names one of the runs."""
        async with self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("checkpoints_of_runs"), {"run_ids": list(run_ids)})
            doomed: dict[tuple[str, str], set[str]] = defaultdict(set)
            for row in await cursor.fetchall():
                doomed[row["thread_id"], row["checkpoint_ns"]].add(row["checkpoint_id"])
            for (thread_id, namespace), checkpoint_ids in doomed.items():
                await self._delete(connection, thread_id, namespace, checkpoint_ids)

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Keeps the latest checkpoint of each namespace of the threads, or nothing. Raises ValueError, TypeError."""
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a sequence of ids, not one id")
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown prune strategy {strategy!r}; there are 'keep_latest' and 'delete'")
        if strategy == "delete":
            await self.delete_threads(thread_ids)
            return
        for thread_id in thread_ids:
            async with self._pool.connection() as connection, connection.transaction():
                cursor = await connection.execute(
                    "SELECT DISTINCT checkpoint_ns FROM platform.checkpoints WHERE thread_id = %s", [thread_id]
                )
                for (namespace,) in await cursor.fetchall():
                    rows = await self._rows(connection, thread_id, namespace)
                    await self._delete(connection, thread_id, namespace, {row["checkpoint_id"] for row in rows[:-1]})

    async def _delete(self, connection: AsyncConnection[Any], thread_id: str, namespace: str, doomed: set[str]) -> None:
        """Deletes checkpoints; what the others had built on them moves into the others' own rows."""
        rows = await self._rows(connection, thread_id, namespace)
        history = History(self._serde, (row["changes"] for row in rows))
        place = {"thread_id": thread_id, "checkpoint_ns": namespace}
        stored: dict[str, Stored] = {}
        written: set[tuple[str, Any]] = set()
        for row in rows:
            if row["checkpoint_id"] in doomed:
                continue
            versions = _body(row)["channel_versions"]
            values = history.values(versions)
            new = {c: version for c, version in versions.items() if c in values and (c, version) not in written}
            changes = pack_changes(self._serde, values, new, stored)
            stored |= {channel: Stored(version, values[channel]) for channel, version in new.items()}
            written |= set(new.items())
            await connection.execute(
                query("repack_checkpoint"),
                {**place, "checkpoint_id": row["checkpoint_id"], "changes": changes, "gone": list(doomed)},
            )
        await connection.execute(query("delete_checkpoints"), {**place, "checkpoint_ids": list(doomed)})
        await connection.execute(query("delete_checkpoint_writes"), {**place, "checkpoint_ids": list(doomed)})

    async def _rows(self, connection: AsyncConnection[Any], thread_id: str, namespace: str) -> list[Row]:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(
            query("checkpoint_rows"), {"thread_id": thread_id, "checkpoint_ns": namespace}, binary=True
        )
        return await cursor.fetchall()

    async def _writes(
        self, connection: AsyncConnection[Any], thread_id: str, namespace: str, rows: Iterable[Row]
    ) -> dict[str, list[tuple[str, str, Any]]]:
        ids = [row["checkpoint_id"] for row in rows]
        found: dict[str, list[tuple[str, str, Any]]] = defaultdict(list)
        for checkpoint_id, each in (await self._writes_of_tasks(connection, thread_id, namespace, ids)).items():
            found[checkpoint_id] = [(row.task_id, *write) for row in each for write in row.writes]
        return found

    async def _writes_of_tasks(
        self, connection: AsyncConnection[Any], thread_id: str, namespace: str, ids: Sequence[str]
    ) -> dict[str, list[TaskWrites]]:
        cursor = await connection.execute(
            query("checkpoint_writes"),
            {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_ids": list(ids)},
            binary=True,
        )
        found: dict[str, list[TaskWrites]] = defaultdict(list)
        for checkpoint_id, task_id, path, packed in await cursor.fetchall():
            found[checkpoint_id].append(TaskWrites(task_id, path, unpack_writes(self._serde, packed)))
        return found

    def _tuples(
        self,
        thread_id: str,
        namespace: str,
        oldest_first: Iterable[Row],
        history: History,
        writes: Mapping[str, list[tuple[str, str, Any]]] = MappingProxyType({}),
    ) -> list[CheckpointTuple]:
        # In this order each value is put together from the one before it; in the other, each from the first.
        return [self._tuple(thread_id, namespace, row, history, writes) for row in oldest_first]

    def _tuple(
        self,
        thread_id: str,
        namespace: str,
        row: Row,
        history: History,
        writes: Mapping[str, list[tuple[str, str, Any]]],
    ) -> CheckpointTuple:
        body = _body(row)
        checkpoint = cast(Checkpoint, {**body, "channel_values": history.values(body["channel_versions"])})
        place = {"thread_id": thread_id, "checkpoint_ns": namespace}
        parent_id = row["parent_checkpoint_id"]
        return CheckpointTuple(
            config={"configurable": {**place, "checkpoint_id": row["checkpoint_id"]}},
            checkpoint=checkpoint,
            metadata=cast(CheckpointMetadata, row["metadata"]),
            parent_config={"configurable": {**place, "checkpoint_id": parent_id}} if parent_id else None,
            pending_writes=list(writes.get(row["checkpoint_id"], ())),
        )


def _body(row: Row) -> dict[str, Any]:
    return cast(dict[str, Any], ormsgpack.unpackb(row["body"]))
