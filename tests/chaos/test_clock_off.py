"""Clocks that are off: a replica's by an hour, or by less than is tolerated, and that of a service which runs call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from services.local.processes import Program, ServiceProcess
from tests.chaos.book import check
from tests.chaos.deployment import GRACE_S, Deployment, replaced, until
from tests.chaos.load import Load
from tests.chaos.script import script
from tests.chaos.test_replica_frozen import TAKEN_OVER

HOUR_S = 3600.0
# Runs whose second owner has committed something, and those that a third has taken.
_GONE_ON = "SELECT FROM platform.runs WHERE state = 'RUNNING' AND epoch = 2 AND idle_claims = 0"
_IN_THREE_HANDS = "SELECT FROM platform.runs WHERE created_at > %s AND epoch >= 3"
# Each is tolerated, so that what one writes seems later than what the other writes after it.
APART_S = 4.0
ROUNDS = 12
# More than a token may be early.
BEHIND_S = 60.0
_TOLD_OF_CLOCKS = "SELECT FROM platform.run_events WHERE payload ->> 'cause' = 'CLOCKS_APART'"
# So that a run goes through several hands on its way.
SLOWEST_MODEL_S = 0.6


def _faketime() -> str:
    """The library that shifts the clock of a process that preloads it."""
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise RuntimeError("libfaketime is not installed; it is in the dev group")
    return str(Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1")


@asynccontextmanager
async def shifted(deployed: Deployment, replica: ServiceProcess, shift_s: float) -> AsyncIterator[ServiceProcess]:
    """Puts a replica with another clock in the place of one of the deployment's, for a while."""
    env = {
        **replica.program.env,
        "LD_PRELOAD": _faketime(),
        "FAKETIME": f"{shift_s:+g}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    program = Program(f"{replica.name}-shifted", replica.program.arguments, env)
    async with replaced(replica, program, deployed.stack.directory) as other:
        yield other


async def until_told(deployed: Deployment, replica: ServiceProcess, shift_s: float, *, within_s: float) -> None:
    """Waits until a replica tells its skew; it knows less of that whenever the database's answer takes long."""

    async def told() -> bool:
        return abs(await deployed.metric("signalbox_clock_skew_seconds", [replica]) - shift_s) <= within_s

    await until(told, f"a skew of {shift_s:g} s to be told")


@pytest.mark.parametrize("shift_s", [HOUR_S, -HOUR_S])
async def test_a_clock_an_hour_off(deployed: Deployment, shift_s: float) -> None:
    replica, *others = deployed.stack.runtimes
    async with shifted(deployed, replica, shift_s) as off:
        await until_told(deployed, off, shift_s, within_s=5)
        taken_before = await deployed.metric(TAKEN_OVER, others)
        load = Load(deployed, concurrency=10)
        async with load.running():
            await load.more(40)
        await check(deployed, load.told)
        assert await deployed.metric(TAKEN_OVER, [off]) == 0, "it took live runs from the others"
        assert await deployed.metric(TAKEN_OVER, others) == taken_before
        assert await deployed.metric("signalbox_runs_claimed_total", [off]) == 0
        assert {one.run.epoch for one in load.told} == {1}


async def test_clocks_apart_within_the_tolerance(deployed: Deployment) -> None:
    ahead, behind, _right = deployed.stack.runtimes
    load = Load(deployed, concurrency=12)
    script(deployed.model, slowest_s=SLOWEST_MODEL_S)
    try:
        async with (
            shifted(deployed, ahead, APART_S) as first,
            shifted(deployed, behind, -APART_S) as second,
            load.running(),
        ):
            await until_told(deployed, first, APART_S, within_s=0.9)
            [[begun_at]] = await deployed.rows("SELECT now()")
            for _ in range(ROUNDS):
                await load.more(6)
                await from_hand_to_hand(deployed, first, second)
                if await deployed.rows(_IN_THREE_HANDS, begun_at):
                    break
            await load.more(12)
    finally:
        script(deployed.model)
    await check(deployed, load.told)
    assert max(one.run.epoch for one in load.told) >= 3, "no run went through three hands"


async def test_runs_wait_for_a_service_whose_clock_is_behind(deployed: Deployment) -> None:
    load = Load(deployed, concurrency=6)

    async def told_of_clocks() -> bool:
        return bool(await deployed.rows(_TOLD_OF_CLOCKS))

    async with load.running():
        await load.more(6)
        async with shifted(deployed, deployed.executor, -BEHIND_S):
            await until(told_of_clocks, "a run to wait for the clock")
        await load.more(12)
    await check(deployed, load.told)


async def from_hand_to_hand(deployed: Deployment, first: ServiceProcess, second: ServiceProcess) -> None:
    """Has a replica hand its runs over, and another as soon as it has taken a step with one of them."""

    async def busy() -> bool:
        return await deployed.metric("signalbox_runs_active", [first]) >= 3

    await until(busy, "the first replica to have runs")
    stopping = asyncio.create_task(first.stop(grace_s=GRACE_S))

    async def gone_on() -> bool:
        # All of them may have gone to the third replica, or have ended: then it was for nothing.
        return stopping.done() or bool(await deployed.rows(_GONE_ON))

    await until(gone_on, "a run that was handed over to take a step")
    await second.stop(grace_s=GRACE_S)
    await stopping
    for replica in (first, second):
        await replica.start()
