"""The last release and this one change places under load, forwards and back: nothing lost, failed or done twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from services.local.processes import ServiceProcess
from tests.chaos.book import check
from tests.chaos.deployment import Deployment, deployment, until
from tests.chaos.load import Load
from tests.chaos.test_replica_frozen import TAKEN_OVER
from tests.chaos.upgrading import in_its_world, migrate, upgraded
from tests.fixtures.release import ENVIRONMENT, ROOT, Release, last_release

CONCURRENCY = 10
# Each replica has a few connections, and prepares what comes back to one of them for the fifth time.
TO_PREPARE = 40
# Far beyond what any run comes to: what differs is the policy's version, and who may go on with a run.
POLICIES = '{"data_chat": {"max_error_attempts": 50}}'


PINNED = """
    SELECT r.run_id::text, r.epoch, p.policy_version, array_agg(DISTINCT d.policy_version)
    FROM platform.runs AS r JOIN platform.policies AS p USING (policy_id) JOIN platform.decisions AS d USING (run_id)
    WHERE p.origins <> '{}' AND d.policy_version <> ''
    GROUP BY 1, 2, 3
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The last release, whose code is compiled by the first of its processes."""
    return last_release(tmp_path_factory.mktemp("release"))


@pytest_asyncio.fixture(loop_scope="session")
async def deployed(release: Release, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deployment]:
    """A deployment in which every service is the last release's, over the world that it knew."""
    in_its_world(release, monkeypatch)
    async with deployment(replicas=2, base_env=release.env) as made:
        yield made


async def freed(deployed: Deployment, victim: ServiceProcess, *, by: ServiceProcess) -> None:
    """Kills a replica at work, has the other notice, and starts it again."""
    freed_before = await deployed.metric(TAKEN_OVER, [by])

    async def at_work() -> bool:
        return await deployed.metric("signalbox_runs_active", [victim]) >= 2

    async def noticed() -> bool:
        return await deployed.metric(TAKEN_OVER, [by]) > freed_before

    await until(at_work, "the replica to have runs")
    await victim.kill()
    await until(noticed, "the other release to free its runs")
    await victim.start()


async def taken_over(deployed: Deployment, load: Load, victim: ServiceProcess, *, by: ServiceProcess) -> None:
    """Kills a replica at work, so that the one of the other release goes on with its runs, and starts it again."""
    taken_before = await deployed.metric(TAKEN_OVER, [by])

    async def at_work() -> bool:
        return await deployed.metric("signalbox_runs_active", [victim]) >= 2

    async def taken() -> bool:
        return await deployed.metric(TAKEN_OVER, [by]) > taken_before

    await until(at_work, "the replica to have runs")
    await victim.kill()
    await until(taken, "the other release to go on with its runs")
    await load.more(CONCURRENCY)
    await victim.start()
    await load.more(CONCURRENCY)


async def check_policies(deployed: Deployment) -> None:
    """Of runs that are pinned to limits that were set, none was decided by any other; some moved to another replica."""
    async with await psycopg.AsyncConnection.connect(deployed.dsn) as connection:
        cursor = await connection.execute(PINNED)
        rows = await cursor.fetchall()
    assert any(epoch > 1 for _, epoch, _, _ in rows)
    for run_id, _, pinned, decided in rows:
        assert decided == [pinned], run_id


def test_the_last_release_runs_its_own_code_on_its_own_libraries(release: Release) -> None:
    script = """
import sys, services.runtime.server, signalbox.v1.runs_pb2
print(*(module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)))
"""
    found = subprocess.run(
        [sys.executable, "-P", "-c", script], env=release.env, capture_output=True, text=True, check=True
    )
    files = [Path(file) for file in found.stdout.split()]
    ours = {file for file in files if file.is_relative_to(release.folder)}
    assert release.folder / "protos/python/signalbox/v1/runs_pb2.py" in ours
    assert release.folder / "services/runtime/server.py" in ours
    assert not [file for file in files if file.is_relative_to(ROOT) and not file.is_relative_to(ENVIRONMENT)]


@pytest.mark.faults
@pytest.mark.timeout(1200)
async def test_forwards_and_back(deployed: Deployment) -> None:
    first, second = deployed.stack.runtimes
    directory = deployed.stack.directory
    guard, gateway = deployed.stack.service("guard"), deployed.stack.service("gateway")
    load = Load(deployed, concurrency=CONCURRENCY, callers_reconnect=True)
    async with load.running():
        await load.more(TO_PREPARE)
        await migrate(deployed.dsn, directory)
        await load.more(TO_PREPARE)
        async with upgraded(first, directory) as newer:
            await load.more(TO_PREPARE)
            await taken_over(deployed, load, newer, by=second)
            await taken_over(deployed, load, second, by=newer)
            async with upgraded(second, directory), upgraded(guard, directory), upgraded(gateway, directory):
                await load.more(TO_PREPARE)  # the last release is gone
            # It comes back beside this one, over what this one has written.
            await load.more(TO_PREPARE)
        await load.more(CONCURRENCY)
    await check(deployed, load.told)


@pytest.mark.timeout(1200)
async def test_limits_that_are_set_hold_from_claim_to_end(deployed: Deployment) -> None:
    """The last release goes on with what it would decide in the same way; the rest waits for a replica of this one."""
    first, second = deployed.stack.runtimes
    directory = deployed.stack.directory
    load = Load(deployed, concurrency=CONCURRENCY, callers_reconnect=True)
    # It stays until every run has ended: without it, nobody would go on with those whose limits were set.
    async with AsyncExitStack() as this_release:
        async with load.running():
            await load.more(CONCURRENCY)
            await migrate(deployed.dsn, directory)
            newer = await this_release.enter_async_context(upgraded(first, directory, SIGNALBOX_POLICIES=POLICIES))
            await load.more(CONCURRENCY)
            await freed(deployed, newer, by=second)
            await load.more(2 * CONCURRENCY)
            await taken_over(deployed, load, second, by=newer)
        await check(deployed, load.told)
        await check_policies(deployed)
