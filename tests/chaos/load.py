"""Load: callers who ask, lose their connection, come back where they were, and keep book of what they were told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import grpc
from signalbox.v1 import runs_pb2

from tests.chaos.deployment import Deployment
from tests.chaos.script import question_for
from tests.fixtures.client import RunClient, question

SUBJECTS = ("27", "28", "31", "40")
RUN_TIMEOUT_S = 240.0
RECONNECT_PAUSE_S = 0.05
_numbers = itertools.count(1)


@dataclass
class WatchedRun:
    """One run as its caller saw it."""

    name: str = field(default_factory=lambda: f"visit-{next(_numbers)}")
    events: list[runs_pb2.RunEvent] = field(default_factory=list)
    reconnects: int = 0

    @property
    def run(self) -> runs_pb2.Run:
        """The run at its end."""
        return self.events[-1].run_ended.run

    @property
    def ended(self) -> bool:
        """Whether the caller was told of the end."""
        return bool(self.events) and self.events[-1].HasField("run_ended")

    @property
    def waited(self) -> bool:
        """Whether the caller was told that the run waits for something that is away."""
        return any(event.state_changed.waiting_for for event in self.events)


class Load:
    """Keeps a number of runs going. `callers_reconnect`: a broken connection is the caller's to mend, not a failure."""

    def __init__(self, deployment: Deployment, *, concurrency: int, callers_reconnect: bool = False) -> None:
        self._deployment = deployment
        self._concurrency = concurrency
        self._reconnect = callers_reconnect
        self._stopping = asyncio.Event()
        self._finished = asyncio.Condition()
        self.told: list[WatchedRun] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Asks inside the context; at its end lets every run come to its own end. Raises what any caller met."""
        async with (
            grpc.aio.insecure_channel(self._deployment.stack.gateway_address, options=_OPTIONS) as channel,
            asyncio.TaskGroup() as callers,
        ):
            for number in range(self._concurrency):
                client = RunClient(channel, self._deployment.stack.token(SUBJECTS[number % len(SUBJECTS)]))
                callers.create_task(self._ask_on(client))
            try:
                yield
            finally:
                self._stopping.set()

    async def finished(self, count: int, *, timeout_s: float = 240.0) -> None:
        """Waits until so many runs have ended. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._finished:
            await self._finished.wait_for(lambda: len(self.told) >= count)

    async def more(self, count: int, *, timeout_s: float = 240.0) -> None:
        """Waits until so many more runs have ended. Raises TimeoutError."""
        await self.finished(len(self.told) + count, timeout_s=timeout_s)

    async def _ask_on(self, client: RunClient) -> None:
        while not self._stopping.is_set():
            told = WatchedRun()
            create = question(question_for(told.name), request_id=str(uuid4()))
            await hear_out(client, create, told, mending=CUT if self._reconnect else ())
            async with self._finished:
                self.told.append(told)
                self._finished.notify_all()


async def hear_out(
    client: RunClient, create: runs_pb2.CreateRunRequest, told: WatchedRun, *, mending: Collection[grpc.StatusCode]
) -> None:
    """Asks, or comes back to where it was, and listens to the end; a call that ends in a status to mend is made again.

    Raises TimeoutError, and AioRpcError of other statuses.
    """
    async with asyncio.timeout(RUN_TIMEOUT_S):
        while not told.ended:
            try:
                async for event in _events(client, create, told):
                    told.events.append(event)
            except grpc.aio.AioRpcError as error:
                if error.code() not in mending:
                    raise
                told.reconnects += 1
                await asyncio.sleep(RECONNECT_PAUSE_S)


def _events(client: RunClient, create: runs_pb2.CreateRunRequest, told: WatchedRun) -> AsyncIterator[runs_pb2.RunEvent]:
    if not told.events:
        return client.execute(create)
    return client.watch(told.events[-1].run_id, told.events[-1].sequence)


# CANCELLED, which this caller never asks for, is what a server that has begun to stop says to calls that still arrive.
CUT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
