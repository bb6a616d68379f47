"""More than a replica can do at once waits its turn, more than can wait is refused, and nothing under way suffers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import runs_pb2, runs_pb2_grpc
from signalbox_routing.table import StateUpdate

from services.kit.errors import error_detail
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.engine.database import open_pool, open_pools
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.errors import DatabaseAway, Overloaded
from services.runtime.routing.run_context import NodeContext
from tests.fixtures.replica import Counting, Replica, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 240.0
MOST = 8


class Crowded(Counting):
    """Notes how many runs are executed at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: set[str] = set()
        self.most_under_way = 0

    async def _count(self, state: Any, context: NodeContext) -> StateUpdate:
        self.under_way.add(context.run.run_id)
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        return await super()._count(state, context)

    async def _report(self, state: Any, context: NodeContext) -> StateUpdate:
        self.under_way.discard(context.run.run_id)
        return await super()._report(state, context)


async def _column(replica: Replica, statement: str) -> list[Any]:
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(statement.encode())
        return [value for (value,) in await cursor.fetchall()]


async def test_runs_created_at_the_same_moment_are_no_more_than_there_is_room_for(start_replica: StartReplica) -> None:
    crowded = Crowded()
    gate = crowded.hold(1)
    replica = await start_replica(crowded, max_concurrent_runs=MOST)
    async with asyncio.timeout(TIMEOUT_S):
        created = await asyncio.gather(*(replica.engine.create(new_run(until=2)) for _ in range(200)))
        watching = [asyncio.create_task(ended(replica, run)) for run, _ in created]
        await crowded.reached.wait()
        states = await _column(replica, "SELECT state FROM platform.runs")
        gate.set()
        done = await asyncio.gather(*watching)
    assert states.count("RUNNING") <= MOST
    assert {run.state for run in done} == {RunState.SUCCEEDED}
    assert {run.epoch for run in done} == {1}, "none was claimed twice"
    assert crowded.most_under_way == MOST, "all the room was used, and no more"


async def test_a_claim_that_is_under_way_has_its_places(start_replica: StartReplica) -> None:
    crowded = Crowded()
    gate = crowded.hold(1)
    replica = await start_replica(crowded, max_concurrent_runs=MOST)
    for _ in range(3 * MOST):
        await replica.store.create(new_run(until=1), claim=False)
    async with asyncio.timeout(TIMEOUT_S):
        created = await asyncio.gather(*(replica.engine.create(new_run(until=1)) for _ in range(3 * MOST)))
        await crowded.reached.wait()
        gate.set()
        await asyncio.gather(*(ended(replica, run) for run, _ in created))
        while set(await _column(replica, "SELECT state FROM platform.runs")) != {"SUCCEEDED"}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert crowded.most_under_way == MOST


async def test_a_pool_that_is_busy_is_no_database_that_is_away(platform_dsn: str) -> None:
    async with open_pool(platform_dsn, size=1) as pool:
        pool.timeout = 3.0
        busy = 0

        async def use() -> None:
            nonlocal busy
            async with pool.connection() as connection:
                await connection.execute("SELECT pg_sleep(0.1)")
            busy += 1

        await asyncio.gather(*(use() for _ in range(50)))
        assert busy == 50, "each waited for the others, most of them for longer than the pool's patience"
        async with pool.connection():
            with pytest.raises(DatabaseAway):
                await use()


async def _held(pool: AsyncConnectionPool[Any], stack: AsyncExitStack) -> None:
    for _ in range(pool.max_size):
        await stack.enter_async_context(pool.connection())


async def test_callers_who_hold_every_connection_of_theirs_keep_no_run_from_its_end(
    start_replica: StartReplica, platform_dsn: str
) -> None:
    replica = await start_replica()
    gate = replica.counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=3))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    # Who watches may have to read with a caller's connection: whether the run ends is asked with one of the test's own.
    own = await AsyncConnection.connect(platform_dsn, autocommit=True)
    async with own, AsyncExitStack() as stack, asyncio.timeout(TIMEOUT_S):
        await _held(replica.pools.calls, stack)
        gate.set()
        while (state := await _state(own, run)) == RunState.RUNNING:  # noqa: ASYNC110 - it is the row that is waited for
            await asyncio.sleep(0.02)
    assert state == RunState.SUCCEEDED


async def _state(connection: AsyncConnection[Any], run: RunRecord) -> str:
    cursor = await connection.execute("SELECT state FROM platform.runs WHERE run_id = %s", [run.run_id])
    [(state,)] = await cursor.fetchall()
    return str(state)


async def test_a_small_pool_has_connections_for_every_use(platform_dsn: str) -> None:
    for size, parts in ((2, (1, 1, 1)), (8, (4, 2, 2)), (16, (10, 4, 2))):
        async with open_pools(platform_dsn, size=size) as pools:
            assert (pools.steps.max_size, pools.calls.max_size, pools.upkeep.max_size) == parts


async def test_calls_beyond_those_that_may_wait_are_told_when_to_try_again(start_replica: StartReplica) -> None:
    replica = await start_replica(most_waiting_calls=3)

    def register(callers: Callers) -> Registration:
        callers = Callers(callers.verifier, callers.clock, replica.admission)
        servicer = RunServicer(
            replica.engine, replica.store, replica.pool, replica.directory({}), callers, replica.pins
        )
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    run, _ = await replica.engine.create(new_run(until=1))
    await ended(replica, run)
    request, metadata = runs_pb2.GetRunRequest(run_id=run.run_id), gateway_word("27")
    async with serving(register) as channel, AsyncExitStack() as stack:
        stub = runs_pb2_grpc.RunServiceStub(channel)
        await _held(replica.pools.calls, stack)
        waiting = [asyncio.ensure_future(stub.GetRun(request, metadata=metadata)) for _ in range(3)]
        async with asyncio.timeout(TIMEOUT_S):
            while replica.pools.calls.waiting_count < len(waiting):  # noqa: ASYNC110 - the queue tells nobody
                await asyncio.sleep(0.01)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetRun(request, metadata=metadata)
        await stack.aclose()
        answers = await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
    detail = error_detail(refused.value)
    assert (detail.code, detail.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert detail.retry_after_s
    assert {answer.run.run_id for answer in answers} == {run.run_id}, "who waited already was answered"


async def test_runs_beyond_those_that_may_wait_are_refused_but_not_the_repeat_of_one(
    start_replica: StartReplica,
) -> None:
    replica = await start_replica(max_concurrent_runs=1, most_pending_runs=5)
    gate = replica.counting.hold(1)
    async with asyncio.timeout(TIMEOUT_S):
        created = [await replica.engine.create(new_run(until=1, request_id=f"r{number}")) for number in range(6)]
        await replica.admission.count()
        with pytest.raises(Overloaded) as refused:
            await replica.engine.create(new_run(until=1))
        again, is_new = await replica.engine.create(new_run(until=1, request_id="r3"))
        gate.set()
        done = [await ended(replica, run) for run, _ in created]
        await replica.admission.count()
        last, _ = await replica.engine.create(new_run(until=1))
        assert (await ended(replica, last)).state is RunState.SUCCEEDED
    assert refused.value.retry_after_s
    assert (again.run_id, is_new) == (created[3][0].run_id, False)
    assert {run.state for run in done} == {RunState.SUCCEEDED}
