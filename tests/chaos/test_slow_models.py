"""Model calls that outlast every caller, and replicas killed in the middle of them: callers leave, the runs go on."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import uuid4

import grpc
from signalbox.v1 import runs_pb2

from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment, kill_and_start, until
from tests.chaos.load import CUT, SUBJECTS, WatchedRun, hear_out
from tests.chaos.script import question_for, script
from tests.fixtures.client import RunClient, question

# What a caller gives a call before it leaves.
GIVEN_S = 1.0
MENDED = (*CUT, grpc.StatusCode.DEADLINE_EXCEEDED)
# One more death without a step, and a run is suspected of killing its replicas: it would be run alone, and given up
# when that one is killed too. That is right, and not what is tried here.
_NEARLY_SUSPECTED = "SELECT FROM platform.runs WHERE state IN ('PENDING', 'RUNNING') AND idle_claims >= 2"


async def ask_and_leave(client: RunClient, create: runs_pb2.CreateRunRequest, told: WatchedRun) -> None:
    """Gives a call little time, makes it again until it has heard something, and leaves."""
    request = runs_pb2.ExecuteRunRequest(create=create)
    while not told.events:
        try:
            async for response in client.stub.ExecuteRun(request, metadata=client.metadata, timeout=GIVEN_S):
                told.events.append(response.event)
        except grpc.aio.AioRpcError as error:
            if error.code() not in MENDED:
                raise


class Leavers:
    """Callers who leave, and what they have been told."""

    def __init__(self, deployed: Deployment, channel: grpc.aio.Channel) -> None:
        self._clients = [RunClient(channel, deployed.stack.token(subject)) for subject in SUBJECTS]
        self._visits: list[tuple[RunClient, runs_pb2.CreateRunRequest, WatchedRun]] = []

    @property
    def told(self) -> list[WatchedRun]:
        """What each was told so far."""
        return [told for _, _, told in self._visits]

    async def come_and_go(self, count: int) -> None:
        """So many more ask, and leave."""
        visits = []
        for number in range(count):
            told = WatchedRun()
            create = question(question_for(told.name), request_id=str(uuid4()))
            visits.append((self._clients[number % len(self._clients)], create, told))
        self._visits += visits
        await asyncio.gather(*(ask_and_leave(*visit) for visit in visits))

    async def come_back(self) -> None:
        """All of them listen to the end."""
        await asyncio.gather(*(hear_out(*visit, mending=MENDED) for visit in self._visits))


async def kill_in_mid_call(deployed: Deployment, random: Random, slow_s: float) -> bool:
    """Kills a replica that has runs, at any moment of a model's call; says whether there was one."""

    async def nobody_suspected() -> bool:
        return not await deployed.rows(_NEARLY_SUSPECTED)

    await asyncio.sleep(random.uniform(0, slow_s))
    await until(nobody_suspected, "the runs that were hit again and again to take a step", timeout_s=240)
    replicas = deployed.stack.runtimes
    at_work = [replica for replica in replicas if await deployed.metric("signalbox_runs_active", [replica])]
    if at_work:
        await kill_and_start(random.choice(at_work))
    return bool(at_work)


async def test_callers_leave_and_replicas_die(deployed: Deployment, extent: Extent) -> None:
    assert extent.slow_s > GIVEN_S
    random, kills, hits = extent.random(), max(1, extent.kills // 5), 0
    script(deployed.model, thinking_s=extent.slow_s)
    try:
        async with grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel:
            leavers = Leavers(deployed, channel)
            while hits < kills:
                await leavers.come_and_go(max(2, extent.runs // kills // 5))
                hits += await kill_in_mid_call(deployed, random, extent.slow_s)
            assert not any(told.ended for told in leavers.told), "a caller was there at the end"
            await leavers.come_back()
    finally:
        script(deployed.model)
    await check(deployed, leavers.told)
    # A run that has its caller's deadline finds all it calls away once that is over, and is mended by waiting for it.
    assert not any(told.waited for told in leavers.told), "a run waited, though nothing was away"
    assert max(told.run.epoch for told in leavers.told) > 1, "no run was ever taken over: the kills hit nothing"
