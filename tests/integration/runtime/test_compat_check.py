"""Checkpoints that an older release wrote, against the graphs of a newer one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.compatibility import IncompatibleRun, incompatible_runs
from services.runtime.engine.serde import make_serde
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.state import append
from tests.fixtures.forked import program
from tests.fixtures.replica import Counting, CountingPolicy, CountingState, Replica
from tests.integration.runtime.conftest import StartReplica, new_run

Pool = AsyncConnectionPool[Any]
OLD = Counting().graph
POLICIES = {"counting": CountingPolicy}


class Count(TypedDict):
    """What the newer release makes of a number."""

    number: int


class NewState(CountingState, total=False):
    """Counts are records now, and there is one field more."""

    counts: Annotated[list[Count], append]  # type: ignore[misc]
    note: str


@pytest.fixture
async def unfinished(start_replica: StartReplica) -> str:
    """The id of a run that has counted to two, before the node `count`, and will not go on."""
    replica: Replica = await start_replica()
    replica.counting.hold(3)
    run, _ = await replica.engine.create(new_run(until=5))
    await asyncio.wait_for(replica.counting.reached.wait(), 60)
    return run.run_id


async def check(pool: Pool, *graphs: AgentGraph) -> list[IncompatibleRun | None]:
    """What comes of every unfinished run."""
    return [
        found
        async for found in incompatible_runs(pool, make_serde(), {graph.name: graph for graph in graphs}, POLICIES)
    ]


async def problems(pool: Pool, *graphs: AgentGraph) -> tuple[str, ...]:
    """What is wrong with the only unfinished run."""
    [found] = await check(pool, *graphs)
    return found.problems if found else ()


@pytest.mark.usefixtures("unfinished")
async def test_the_release_that_wrote_a_run_can_go_on_with_it(platform_pool: Pool) -> None:
    assert await problems(platform_pool, OLD) == ()


async def test_an_agent_that_is_gone(unfinished: str, platform_pool: Pool) -> None:
    [found] = await check(platform_pool)
    assert found == IncompatibleRun(unfinished, "counting", OLD.version, ("there is no agent 'counting'",))


@pytest.mark.usefixtures("unfinished")
async def test_a_node_that_is_gone(platform_pool: Pool) -> None:
    renamed = tuple(RoutedNode(f"new_{node.name}", node.run) for node in OLD.nodes)
    newer = replace(OLD, nodes=renamed, entry="new_count")
    assert await problems(platform_pool, newer) == ("it waits for node 'count', which is gone",)


@pytest.mark.usefixtures("unfinished")
async def test_a_node_that_is_gone_but_that_nothing_waits_for(platform_pool: Pool) -> None:
    newer = replace(OLD, nodes=OLD.nodes[:1])
    assert await problems(platform_pool, newer) == ()


@pytest.mark.usefixtures("unfinished")
async def test_a_field_that_no_longer_parses(platform_pool: Pool) -> None:
    assert await problems(platform_pool, replace(OLD, state=NewState)) == ("counts[0] is int, not Count",)


@pytest.mark.usefixtures("unfinished")
async def test_a_checkpoint_that_can_not_be_read(platform_pool: Pool) -> None:
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.checkpoints SET changes = '\\x93'")
    [problem] = await problems(platform_pool, OLD)
    assert problem.startswith("the checkpoint can't be read: ")


@pytest.mark.usefixtures("unfinished")
async def test_a_limit_that_can_no_longer_be_used(platform_pool: Pool) -> None:
    async with platform_pool.connection() as connection:
        await connection.execute('UPDATE platform.policies SET limits = \'{"max_counts": "many"}\'')
    [problem] = await problems(platform_pool, OLD)
    assert problem.startswith("CountingPolicy.max_counts is pinned to 'many'")


async def test_limits_that_no_replica_would_start_with_are_told_before_a_roll_out(platform_dsn: str) -> None:
    policies = '{"data_chat": {"max_iteration": 5}, "weather": {}}'
    process = await asyncio.create_subprocess_exec(
        *program("services.runtime.commands.compat_check"),
        env={"SIGNALBOX_DATABASE_DSN": platform_dsn, "SIGNALBOX_POLICIES": policies}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await asyncio.wait_for(process.communicate(), 60)
    problems = said.decode().splitlines()
    assert process.returncode == 2
    assert [problem.partition(": there")[0] for problem in problems] == [
        "SIGNALBOX_POLICIES: data_chat.max_iteration",
        "SIGNALBOX_POLICIES: weather",
    ]


async def test_limits_under_which_a_run_is_cut_off_are_told_before_a_roll_out(platform_dsn: str) -> None:
    policies = '{"sast_investigation": {"max_iterations": 50}, "data_chat": {"max_iterations": 5}}'
    process = await asyncio.create_subprocess_exec(
        *program("services.runtime.commands.compat_check"),
        env={"SIGNALBOX_DATABASE_DSN": platform_dsn, "SIGNALBOX_POLICIES": policies}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert said.decode().splitlines() == [
        "sast_investigation: a run can take 200 steps, and is cut off at 100",
        "0 unfinished runs, of which 0 could not go on",
    ]


async def test_ended_runs_and_those_that_have_not_begun_are_no_obstacle(
    start_replica: StartReplica, platform_pool: Pool
) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=1))
    async for _ in replica.engine.watch(run, 0):
        pass
    assert await check(platform_pool) == []
    await replica.engine.drain()
    await replica.store.create(new_run(), claim=False)
    assert await check(platform_pool, OLD) == [None]


async def test_the_command_tells_by_its_exit_status(unfinished: str, platform_dsn: str, platform_pool: Pool) -> None:
    async def command() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *program("services.runtime.commands.compat_check"),
            env={"SIGNALBOX_DATABASE_DSN": platform_dsn}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode()

    status, said = await command()
    assert (status, said.splitlines()[-1]) == (1, "1 unfinished runs, of which 1 could not go on")
    assert f"{unfinished}  counting {OLD.version}: there is no agent 'counting'" in said
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET state = 'CANCELLED', ended_at = now()")
    assert await command() == (0, "0 unfinished runs, of which 0 could not go on\n")
