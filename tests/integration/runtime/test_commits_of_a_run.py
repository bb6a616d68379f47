"""What of a run is committed together: its first two checkpoints, each step with what its tasks wrote,
and its last step with its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest
from signalbox.v1 import data_chat_pb2

from services.runtime.engine.records import RunState
from services.runtime.engine.saver import RunSaver
from tests.fixtures.hosted import FOLDER, hosted_replica
from tests.fixtures.replica import Counting, Replica, answer_of
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
_CHECKPOINTS = """
    SELECT (metadata ->> 'step')::int, xmin::text FROM platform.checkpoints WHERE thread_id = %s ORDER BY checkpoint_id
"""
_WRITES = """
    SELECT count(w.*), array_agg(DISTINCT w.xmin::text), min(c.xmin::text)
    FROM platform.checkpoint_writes AS w
    JOIN platform.checkpoints AS c ON c.thread_id = w.thread_id AND c.parent_checkpoint_id = w.checkpoint_id
    WHERE w.thread_id = %s AND w.idx >= 0 AND w.checkpoint_ns = '' AND c.checkpoint_ns = ''
    GROUP BY c.checkpoint_id
"""
_EVENTS = "SELECT kind, xmin::text FROM platform.run_events WHERE run_id = %s ORDER BY sequence"
_RUN = "SELECT state, xmin::text FROM platform.runs WHERE run_id = %s"
_STEAL = "UPDATE platform.runs SET epoch = epoch + 1, claim_id = gen_random_uuid() WHERE epoch = 1"


class CountingThen(Counting):
    """Counts, and does something between its last step and its end."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self._then = then

    def _result(self, state: Mapping[str, Any], asked: Any) -> data_chat_pb2.DataChatOutput:
        self._then()
        return super()._result(state, asked)


async def rows(replica: Replica, query: str, run_id: str) -> list[tuple[Any, str]]:
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(query.encode(), [run_id])
        return list(await cursor.fetchall())


async def test_a_run_begins_with_one_commit_and_ends_with_its_last_step(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=2))
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED
    steps, commits = zip(*await rows(replica, _CHECKPOINTS, run.run_id), strict=True)
    assert steps == (-1, 0, 1, 2, 3)
    assert commits[0] == commits[1]
    assert len(set(commits[1:])) == 4
    [(_, of_the_end)] = await rows(replica, _RUN, run.run_id)
    events = await rows(replica, _EVENTS, run.run_id)
    assert events[-2:] == [("node_completed", commits[-1]), ("run_ended", commits[-1])]
    assert of_the_end == commits[-1]


async def test_who_lost_the_claim_writes_neither_step_nor_end(start_replica: StartReplica, platform_dsn: str) -> None:
    def steal() -> None:
        with psycopg.connect(platform_dsn, autocommit=True) as connection:
            connection.execute(_STEAL)

    replica = await start_replica(CountingThen(steal))
    run, _ = await replica.engine.create(new_run(until=1))
    async with asyncio.timeout(TIMEOUT_S):
        found = await ended(replica, run)
    assert (found.state, found.epoch > 1, answer_of(found.output)) == (RunState.SUCCEEDED, True, "1")
    assert [step for step, _ in await rows(replica, _CHECKPOINTS, run.run_id)] == [-1, 0, 1, 2]
    kinds = [kind for kind, _ in await rows(replica, _EVENTS, run.run_id)]
    assert (kinds.count("decision"), kinds.count("node_completed"), kinds.count("run_ended")) == (1, 1, 1)


async def test_a_run_that_fails_at_its_end_keeps_its_last_step(start_replica: StartReplica) -> None:
    def fail() -> None:
        raise LookupError("there is no result")

    replica = await start_replica(CountingThen(fail))
    run, _ = await replica.engine.create(new_run(until=1))
    async with asyncio.timeout(TIMEOUT_S):
        found = await ended(replica, run)
    assert (found.state, found.stop_reason) == (RunState.FAILED, "internal_error")
    events = [kind for kind, _ in await rows(replica, _EVENTS, run.run_id)]
    assert events == ["state_changed", "decision", "node_completed", "run_ended"]


async def test_a_last_step_that_can_t_be_stored_fails_its_run_and_is_not_tried_for_ever(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the database has against it: the run would be let go of and begun anew, and models asked each time."""
    put, tried = RunSaver._put, list[str]()

    async def refusing(self: RunSaver, connection: Any, name: str, parameters: Mapping[str, Any]) -> Any:
        if name == "end_with_step":
            tried.append(name)
            raise psycopg.errors.NumericValueOutOfRange("integer out of range")
        return await put(self, connection, name, parameters)

    monkeypatch.setattr(RunSaver, "_put", refusing)
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=1))
    async with asyncio.timeout(TIMEOUT_S):
        found = await ended(replica, run)
    assert (found.state, found.stop_reason, found.epoch) == (RunState.FAILED, "internal_error", 1)
    assert tried == ["end_with_step"]


async def test_what_tasks_that_ran_together_wrote_is_committed_with_their_step(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, folder=FOLDER) as replica:
        run = await replica.run("digest", {"words": ["a", "word", "or", "more"]})
        assert run.state is RunState.SUCCEEDED
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(_WRITES, [run.run_id])
            written = await cursor.fetchall()
    assert max(tasks for tasks, _, _ in written) == 4
    assert all(writes == [checkpoint] for _, writes, checkpoint in written)
