"""Threads: the runs that share a conversation. A thread belongs to its caller and is nobody else's to see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection, DataError
from psycopg.errors import QueryCanceled
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from services.kit.errors import InvalidRequest
from services.kit.identifiers import uuid7
from services.kit.identity.caller import Caller
from services.runtime.agents.offered import Offered
from services.runtime.engine.forks import check_offered, continued, continuing, is_hosted, version_to_go_on
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.engine.records import ForkedFrom, RunRecord
from services.runtime.engine.run_search import RunFilter, RunSearch
from services.runtime.engine.snapshot import CheckpointSummary, Snapshot, snapshot_of, summary_of
from services.runtime.engine.store import RunStore
from services.runtime.errors import (
    CheckpointNotFound,
    ForkRefused,
    RolesLost,
    RunNotEnded,
    RunNotFound,
    ThreadBusy,
    ThreadExists,
    ThreadNotFound,
    ThreadsEmpty,
)

RUNS_SHOWN = 100
MOST_METADATA_BYTES = 32 * 1024
# Of a caller: nothing else bounds what costs no run.
MOST_EMPTY = 1000
_TOO_LONG = (
    "metadata: finding threads by it takes longer than the database allows; ask for fewer names, or smaller pages"
)


@dataclass(frozen=True)
class ThreadRecord:
    """A thread and what its runs come to; agent, labels and state are of the active run, or the latest."""

    thread_id: str
    created_at: datetime
    run_count: int
    latest_run_at: datetime
    active_run_id: str | None
    metadata: dict[str, Any]
    agent: str
    labels: dict[str, str]
    state: str | None


@dataclass(frozen=True)
class Fork:
    """What to make a new thread of: history up to a run, or up to before it and a checkpoint of it to go on from."""

    thread_id: str
    run_id: str
    checkpoint_id: str | None = None
    new_thread_id: str | None = None
    traceparent: str = ""


class ThreadStore:
    """Threads in the database; `agents` are those that are installed."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serde: SerializerProtocol,
        runs: RunStore,
        agents: Mapping[str, Offered],
    ) -> None:
        self._pool = pool
        self._serde = serde
        self._history = CheckpointHistory(pool, serde)
        self._runs = runs
        self._search = RunSearch(pool)
        self._agents = agents

    async def select(
        self,
        caller: Caller,
        *,
        limit: int,
        before: tuple[datetime, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ThreadRecord]:
        """Returns the caller's threads, newest first; with `metadata` those that keep it, or have it as labels.

        Raises InvalidRequest.
        """
        async with self._pool.connection() as connection:
            try:
                return await self._select(connection, caller, limit=limit, before=before, metadata=metadata)
            except QueryCanceled as error:
                if not metadata:
                    raise
                # The database is there, and would take as long the next time.
                raise InvalidRequest(_TOO_LONG) from error

    async def update(
        self, caller: Caller, thread_id: str, metadata: Mapping[str, Any], *, only_new: bool
    ) -> ThreadRecord:
        """Keeps metadata with a thread. Raises ThreadExists, ThreadsEmpty, InvalidRequest."""
        parameters = {"subject": caller.subject, "thread_id": thread_id, "only_new": only_new}
        async with self._pool.connection() as connection, connection.transaction():
            written = {**parameters, "metadata": orjson.dumps(metadata).decode()}
            with _jsonb():
                cursor = await connection.execute(query("update_thread"), written)
            row = await cursor.fetchone()
            if row is None:
                raise ThreadExists(f"there is a thread {thread_id!r} already; name another")
            if row[0] > MOST_METADATA_BYTES:
                raise InvalidRequest(f"metadata: a thread keeps at most {MOST_METADATA_BYTES} bytes")
            cursor = await connection.execute(query("count_empty_threads"), {**parameters, "most": MOST_EMPTY + 1})
            count = await cursor.fetchone()
            if count and count[0] > MOST_EMPTY:
                raise ThreadsEmpty(f"{MOST_EMPTY} threads without runs are the most; create runs there, or delete some")
            return await self._get(connection, caller, thread_id)

    async def get(self, caller: Caller, thread_id: str) -> ThreadRecord:
        """Returns a thread. Raises ThreadNotFound."""
        async with self._pool.connection() as connection:
            return await self._get(connection, caller, thread_id)

    async def runs(self, caller: Caller, thread_id: str) -> list[RunRecord]:
        """Returns the latest runs of a thread, newest first, without input and output."""
        wanted = RunFilter(thread_id=thread_id)
        return (await self._search.page(_owner(caller), wanted, limit=RUNS_SHOWN)).runs

    async def state(
        self, caller: Caller, thread_id: str, run_id: str, checkpoint_id: str | None
    ) -> tuple[Snapshot, list[CheckpointSummary]]:
        """Returns the state of a run at a checkpoint, by default the latest, and the checkpoints there are.

        Raises RunNotFound, RolesLost, CheckpointNotFound.
        """
        # As it is stored: who asks may have spelled the id in another way.
        run_id = (await self._run(caller, thread_id, run_id)).run_id
        config: Any = {"configurable": {"thread_id": run_id, "checkpoint_ns": ""}}
        newest_first = self._history.select(config, metadata_filter=None, before=None, limit=None)
        found = [checkpoint async for checkpoint in newest_first]
        wanted = next((each for each in found if checkpoint_id in (None, each.checkpoint["id"])), None)
        if wanted is None:
            raise _no_checkpoint(run_id, checkpoint_id)
        return snapshot_of(wanted), [summary_of(each) for each in reversed(found)]

    async def fork(self, caller: Caller, fork: Fork) -> tuple[ThreadRecord, RunRecord | None]:
        """Makes a thread of another's history, and from a checkpoint a run that goes on from there.

        Raises RunNotFound, RolesLost, RunNotEnded, ForkRefused, CheckpointNotFound, AgentGone, ThreadExists,
        RunQuotaExceeded.
        """
        run = await self._run(caller, fork.thread_id, fork.run_id)
        checkpoint = await self._checkpoint(run, fork.checkpoint_id) if fork.checkpoint_id else None
        if checkpoint is not None:
            await check_offered(self._pool, self._agents, run.agent)
        elif not run.state.ended:
            raise RunNotEnded(f"run {run.run_id} has not ended; name a checkpoint to fork from, or wait")
        elif run.rolled_back_by:
            raise ForkRefused(f"run {run.run_id} was rolled back, and nothing of it is in the thread; name another")
        thread_id = fork.new_thread_id or uuid7()
        continued_by = None
        async with self._pool.connection() as connection, connection.transaction():
            parameters = {"subject": caller.subject, "thread_id": thread_id}
            cursor = await connection.execute(query("new_thread"), parameters)
            if await cursor.fetchone() is None:
                raise ThreadExists(f"there is a thread {thread_id!r} already; name another")
            await self._copy_runs(connection, run, thread_id, inclusive=checkpoint is None)
            if checkpoint is not None:
                continued_by = await self._continued(connection, run, caller, thread_id, fork, checkpoint)
            return await self._get(connection, caller, thread_id), continued_by

    async def delete(self, caller: Caller, thread_id: str) -> tuple[int, int]:
        """Deletes a thread; returns how many runs went, and how many decisions were blanked.

        Raises ThreadNotFound, ThreadBusy.
        """
        parameters = {"subject": caller.subject, "thread_id": thread_id}
        async with self._pool.connection() as connection, connection.transaction():
            # Taken by whoever creates a run in the thread: none can begin while it goes.
            await connection.execute(query("lock_thread"), parameters)
            thread = await self._get(connection, caller, thread_id)
            if thread.active_run_id:
                raise ThreadBusy(
                    f"thread {thread_id!r} has an active run; wait for it or cancel it",
                    metadata={"active_run_id": thread.active_run_id},
                )
            cursor = await connection.execute(query("delete_thread"), parameters)
            run_count, decision_count = await cursor.fetchone() or (0, 0)
        return run_count, decision_count

    async def _select(
        self,
        connection: AsyncConnection[Any],
        caller: Caller,
        *,
        limit: int,
        thread_id: str | None = None,
        before: tuple[datetime, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ThreadRecord]:
        before_created, before_thread_id = before or (None, None)
        parameters = {
            "subject": caller.subject,
            "thread_id": thread_id,
            "before_created": before_created,
            "before_thread_id": before_thread_id,
            "limit": limit,
            "metadata": orjson.dumps(dict(metadata or {})).decode(),
        }
        cursor = connection.cursor(row_factory=class_row(ThreadRecord))
        with _jsonb():
            await cursor.execute(query("list_threads"), parameters)
        return await cursor.fetchall()

    async def _get(self, connection: AsyncConnection[Any], caller: Caller, thread_id: str) -> ThreadRecord:
        found = await self._select(connection, caller, limit=1, thread_id=thread_id)
        if not found:
            raise ThreadNotFound(f"there is no thread {thread_id!r} of this caller")
        return found[0]

    async def _run(self, caller: Caller, thread_id: str, run_id: str) -> RunRecord:
        run = await self._runs.get(run_id, _owner(caller))
        if run.thread_id != thread_id:
            raise RunNotFound(f"there is no run {run_id} in thread {thread_id!r}", metadata={"run_id": run_id})
        if not run.caller.roles <= caller.roles:
            raise RolesLost(f"run {run_id} was made with roles that this caller has lost", metadata={"run_id": run_id})
        return run

    async def _checkpoint(self, run: RunRecord, checkpoint_id: str) -> CheckpointTuple:
        found = await self._history.load(run.run_id, "", checkpoint_id)
        if found is None:
            raise _no_checkpoint(run.run_id, checkpoint_id)
        return found

    async def _copy_runs(
        self, connection: AsyncConnection[Any], run: RunRecord, thread_id: str, *, inclusive: bool
    ) -> None:
        parameters = {
            "subject": run.caller.subject,
            "thread_id": run.thread_id,
            "created_at": run.created_at,
            "run_id": run.run_id,
            "inclusive": inclusive,
        }
        cursor = await connection.execute(query("ended_runs_until"), parameters)
        sources = [run_id for (run_id,) in await cursor.fetchall()]
        targets = [uuid7() for _ in sources]
        await connection.execute(query("copy_runs"), {"thread_id": thread_id, "sources": sources, "targets": targets})

    async def _continued(
        self,
        connection: AsyncConnection[Any],
        run: RunRecord,
        caller: Caller,
        thread_id: str,
        fork: Fork,
        source: CheckpointTuple,
    ) -> RunRecord | None:
        new = continuing(run, caller, thread_id, fork.traceparent)
        new = replace(new, graph_version=version_to_go_on(self._agents, run, source))
        forked_from = ForkedFrom(run.run_id, source.checkpoint["id"], source.metadata.get("step", 0))
        return await continued(connection, self._runs, self._serde, new, source, forked_from, hosted=is_hosted(run))


@contextmanager
def _jsonb() -> Iterator[None]:
    try:
        yield
    except DataError as error:  # a NUL, or a number without bounds
        raise InvalidRequest(f"metadata: can't be kept: {error.diag.message_primary}") from error


def _owner(caller: Caller) -> Caller:
    # What a caller says in a thread is not for operators either.
    return replace(caller, roles=frozenset())


def _no_checkpoint(run_id: str, checkpoint_id: str | None) -> CheckpointNotFound:
    which = f"checkpoint {checkpoint_id}" if checkpoint_id else "checkpoint"
    return CheckpointNotFound(f"run {run_id} has no {which}; retention may have removed it")
