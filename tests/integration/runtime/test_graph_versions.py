"""Replicas with different graphs over one database: each goes on with what it can, and what nobody can waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from psycopg_pool import AsyncConnectionPool

from services.runtime.commands.compat_check import report
from services.runtime.engine.carrier import PAGE, Carrier
from services.runtime.engine.compatibility import incompatible_runs
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.serde import make_serde
from services.runtime.metrics import RUNS_NOT_CARRIED
from services.runtime.routing.graph import RoutedNode
from tests.fixtures.replica import Counting, CountingState, Replica, answer_of
from tests.integration.runtime.conftest import AGENT, VERSION, MakeStore, StartReplica, ended, new_run

Pool = AsyncConnectionPool[Any]
TIMEOUT_S = 60.0


class NotedState(CountingState, total=False):
    """A field more than the other release has."""

    note: str


def newer() -> Counting:
    """The agent of a release whose state has one field more: each can go on with the other's runs."""
    counting = Counting()
    counting.graph = replace(counting.graph, state=NotedState)
    return counting


def renamed() -> Counting:
    """The agent of a release in which the node has another name: neither can go on with the other's runs."""
    counting = Counting()
    table = counting.graph.nodes[0].router
    assert table is not None
    rules = [replace(rule, to="tally") if rule.to == "count" else rule for rule in table.rules]
    router = type(table)(table.name, facts=table._given, policy=table.policy, rules=rules)
    nodes = (RoutedNode("tally", counting._count, router), counting.graph.nodes[1])
    counting.graph = replace(counting.graph, nodes=nodes, entry="tally")
    return counting


async def begun(replica: Replica) -> RunRecord:
    """A run that has counted to two and was then handed over."""
    gate = replica.counting.hold(3)
    run, _ = await replica.engine.create(new_run(until=4, graph_version=replica.counting.graph.version))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    await replica.engine.drain()
    gate.set()
    left = await replica.store.get(run.run_id, run.caller)
    assert (left.state, left.graph_version) == (RunState.PENDING, replica.counting.graph.version)
    return left


def not_carried() -> float:
    """How many runs a replica of this process says it can't go on with."""
    return REGISTRY.get_sample_value("signalbox_runs_not_carried", {"agent": AGENT}) or 0.0


async def until_not_carried(count: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not_carried() != count:  # noqa: ASYNC110 - a metric says it
            await asyncio.sleep(0.02)


async def test_a_run_goes_on_under_another_graph_that_can_carry_it(start_replica: StartReplica) -> None:
    run = await begun(await start_replica())
    replica = await start_replica(newer())
    after = await asyncio.wait_for(ended(replica, run), TIMEOUT_S)
    assert (after.state, answer_of(after.output)) == (RunState.SUCCEEDED, "1 2 3 4")
    assert after.graph_version == replica.counting.graph.version != VERSION
    assert [number for _, number in replica.counting.counted] == [3, 4]


async def test_and_back(start_replica: StartReplica) -> None:
    run = await begun(await start_replica(newer()))
    after = await asyncio.wait_for(ended(await start_replica(), run), TIMEOUT_S)
    assert (after.state, after.graph_version) == (RunState.SUCCEEDED, VERSION)


async def test_a_run_of_the_last_release_goes_on(start_replica: StartReplica, platform_pool: Pool) -> None:
    run = await begun(await start_replica())
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET graph_version = '1'")
    after = await asyncio.wait_for(ended(await start_replica(), run), TIMEOUT_S)
    assert (after.state, after.graph_version) == (RunState.SUCCEEDED, VERSION)


async def test_what_nobody_can_carry_waits_and_is_seen(start_replica: StartReplica, platform_pool: Pool) -> None:
    run = await begun(await start_replica(renamed()))
    older = await start_replica()
    await until_not_carried(1)

    # It does what it can meanwhile.
    other, _ = await older.engine.create(new_run(until=1))
    assert (await asyncio.wait_for(ended(older, other), TIMEOUT_S)).state is RunState.SUCCEEDED
    waiting = await older.store.get(run.run_id, run.caller)
    assert (waiting.state, waiting.epoch) == (RunState.PENDING, run.epoch)
    found = [each async for each in incompatible_runs(platform_pool, make_serde(), {AGENT: older.counting.graph}, {})]
    said = report(len(found), [incompatible for incompatible in found if incompatible])
    assert f"{run.run_id}  counting {run.graph_version}: it waits for node 'tally', which is gone" in said

    # A replica that can comes, and the other has nothing to say any more.
    after = await asyncio.wait_for(ended(await start_replica(renamed()), run), TIMEOUT_S)
    assert (after.state, answer_of(after.output)) == (RunState.SUCCEEDED, "1 2 3 4")
    await until_not_carried(0)


async def test_a_run_that_has_not_begun_is_anybodys(start_replica: StartReplica, make_store: MakeStore) -> None:
    run, _ = await make_store("gone").create(new_run(until=1, graph_version=renamed().graph.version), claim=False)
    after = await asyncio.wait_for(ended(await start_replica(), run), TIMEOUT_S)
    assert (after.state, after.graph_version) == (RunState.SUCCEEDED, VERSION)


async def test_a_graph_that_stops_in_progress_is_an_error_with_a_name(
    start_replica: StartReplica, platform_pool: Pool
) -> None:
    run = await begun(await start_replica(renamed()))
    async with platform_pool.connection() as connection:
        # As when a release that knows of no digests has gone on with it in between.
        await connection.execute("UPDATE platform.runs SET graph_version = %s", [VERSION])
    after = await asyncio.wait_for(ended(await start_replica(), run), TIMEOUT_S)
    assert (after.state, after.stop_reason) == (RunState.FAILED, "graph_stopped")
    assert "no node of it goes on" in after.error


async def test_many_that_can_not_be_carried_do_not_hide_one_that_can(
    start_replica: StartReplica, platform_pool: Pool
) -> None:
    run = await begun(await start_replica(newer()))
    async with platform_pool.connection() as connection:
        await connection.execute(
            """INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input,
                    budget, epoch, created_at)
                SELECT gen_random_uuid(), 'gone', 'x', '27', '{}', 'c', 'PENDING', '', '{}', 1, now() - interval '1 day'
                FROM generate_series(1, %s)""",
            [2 * PAGE],
        )
    carrier = Carrier(platform_pool, make_serde(), {AGENT: Counting().graph})
    await carrier.look()
    assert carrier.claimable.carried == {run.run_id: run.epoch}
    assert (await asyncio.wait_for(ended(await start_replica(), run), TIMEOUT_S)).state is RunState.SUCCEEDED


@pytest.fixture(autouse=True)
def _counted_anew() -> None:
    RUNS_NOT_CARRIED.clear()
