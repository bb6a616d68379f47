"""A replica whose clock is an hour off: leases go by the database's clock, and callers are served by the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from services.cli.local.processes import Program, ServiceProcess
from services.cli.local.topology import Topology
from tests.chaos.arena import Arena
from tests.chaos.book import check
from tests.chaos.load import Load
from tests.chaos.test_replica_frozen import TAKEN_OVER
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import place_kept

HOUR_S = 3600.0


def _faketime() -> str:
    """The library that shifts the clock of a process that preloads it."""
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise RuntimeError("libfaketime is not installed; it is in the dev group")
    return str(Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1")


def _program(ring: Arena) -> Program:
    stack = ring.stack
    assert stack.options.model is not None
    return Topology(stack.options, stack.keys).runtime(
        1,
        stack.options.model,
        dsn=ring.dsn,
        guard=stack.service("guard").ready.listen,
        sql_executor=ring.executor.ready.listen,
    )


@asynccontextmanager
async def shifted(ring: Arena, replica: ServiceProcess, shift_s: float) -> AsyncIterator[ServiceProcess]:
    """Puts a replica with another clock in the place of one of the arena's, for a while."""
    program = _program(ring)
    env = {
        **program.env,
        "SIGNALBOX_LISTEN": replica.ready.listen,
        "SIGNALBOX_METRICS_LISTEN": replica.ready.metrics,
        "LD_PRELOAD": _faketime(),
        "FAKETIME": f"{shift_s:+.0f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    await replica.stop()
    shifted_program = Program(f"{replica.name}-shifted", program.arguments, env)
    other = ServiceProcess(shifted_program, ring.stack.directory, ready_timeout_s=START_TIMEOUT_S)
    try:
        with place_kept(replica):
            await other.start()
        yield other
    finally:
        await other.stop()
        with place_kept(replica):
            await replica.start()


@pytest.mark.parametrize("shift_s", [HOUR_S, -HOUR_S])
async def test_a_clock_an_hour_off(ring: Arena, shift_s: float) -> None:
    replica, *others = ring.stack.runtimes
    async with shifted(ring, replica, shift_s) as off:
        assert await ring.metric("signalbox_clock_skew_seconds", [off]) == pytest.approx(shift_s, abs=5)
        taken_before = await ring.metric(TAKEN_OVER, others)
        load = Load(ring, concurrency=10)
        async with load.running():
            await load.more(40)
        await check(ring, load.told)
        assert await ring.metric(TAKEN_OVER, [off]) == 0, "it took live runs from the others"
        assert await ring.metric(TAKEN_OVER, others) == taken_before
        assert await ring.metric("signalbox_runs_claimed_total", [off]) == 0
        assert {one.run.epoch for one in load.told} == {1}
