"""The two that are compared: the whole platform, and the same graph in one process; one Postgres and model for both."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import psycopg
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.cli.local.postgres import EmbeddedPostgres
from services.cli.local.stack import LocalStack
from services.cli.local.topology import ModelEndpoint, StackOptions
from services.kit.identity import bearer_metadata
from tests.bench.cpu import CpuMeters
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, QUESTION, Script, scripted_model_process

BASELINE_DATABASE = "baseline"
# One caller alone would meet the quotas of a caller.
CALLERS = 8


@dataclass(frozen=True)
class Ground:
    """Where a comparison takes place."""

    postgres: EmbeddedPostgres
    stack: LocalStack
    model_url: str

    @property
    def baseline_dsn(self) -> str:
        """The database of the bare graph's checkpoints."""
        return self.postgres.dsn(BASELINE_DATABASE)


@asynccontextmanager
async def ground(script: Script, *, settings: dict[str, str] | None = None) -> AsyncIterator[Ground]:
    """Starts Postgres, the scripted model and the platform, and makes a database for the bare graph."""
    with EmbeddedPostgres(settings=settings) as postgres:
        async with scripted_model_process(script) as model_url:
            model = ModelEndpoint(model_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL)
            async with LocalStack(StackOptions(postgres_dsn=postgres.dsn(), model=model)) as stack:
                with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {BASELINE_DATABASE}")
                yield Ground(postgres, stack, model_url)


@dataclass(frozen=True)
class Batch:
    """What a batch of runs took."""

    runs: int
    wall_s: float
    cpu_s: dict[str, float]


class Platform:
    """Asks the platform over gRPC."""

    def __init__(self, ground: Ground) -> None:
        self._channel = grpc.aio.insecure_channel(ground.stack.gateway_address)
        self._stub: Any = runs_pb2_grpc.RunServiceStub(self._channel)
        callers = [[bearer_metadata(ground.stack.token(str(27 + number)))] for number in range(CALLERS)]
        self._callers = itertools.cycle(callers)
        self._first_caller = callers[0]
        services = {service.name: service.pid for service in ground.stack.services}
        self.meters = CpuMeters({**services, "postgres": ground.postgres.pid})

    async def batch(self, runs: int, concurrency: int) -> Batch:
        """Does a batch."""
        slots = asyncio.Semaphore(concurrency)

        async def ask(metadata: list[Any]) -> None:
            async with slots:
                await self.ask(metadata=metadata)

        loop = asyncio.get_running_loop()
        before, start = self.meters.total_s(), loop.time()
        await asyncio.gather(*(ask(next(self._callers)) for _ in range(runs)))
        wall_s, after = loop.time() - start, self.meters.total_s()
        return Batch(runs, wall_s, {name: after[name] - before[name] for name in before})

    async def ask(self, thread_id: str = "", *, metadata: list[Any] | None = None) -> None:
        """Asks the question, by default as the first caller, and waits for the end."""
        asked = data_chat_pb2.DataChatInput(question=QUESTION)
        create = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(data_chat=asked), thread_id=thread_id)
        request = runs_pb2.ExecuteRunRequest(create=create)
        async for response in self._stub.ExecuteRun(request, metadata=metadata or self._first_caller):
            event = response.event
        if event.run_ended.run.state != runs_pb2.RUN_STATE_SUCCEEDED:
            raise RuntimeError(f"a run did not succeed: {event}")

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()


class Baseline:
    """Asks the baseline process."""

    def __init__(self, process: asyncio.subprocess.Process, postgres_pid: int) -> None:
        self._process = process
        self.meters = CpuMeters({"baseline": process.pid, "postgres": postgres_pid})

    async def batch(self, runs: int, concurrency: int) -> Batch:
        """Does a batch."""
        before = self.meters.total_s()
        wall_s = await self._order({"runs": runs, "concurrency": concurrency})
        after = self.meters.total_s()
        return Batch(runs, wall_s, {name: after[name] - before[name] for name in before})

    async def ask(self, thread_id: str) -> None:
        """Asks the question once more in a thread."""
        await self._order({"runs": 1, "concurrency": 1, "thread": thread_id})

    async def _order(self, order: dict[str, Any]) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the baseline process ended; see its messages above")
        wall_s: float = json.loads(answer)["wall_s"]
        return wall_s


@asynccontextmanager
async def contenders(ground: Ground) -> AsyncIterator[tuple[Platform, Baseline]]:
    """Yields both, ready to be asked."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.baseline", ground.model_url, ground.baseline_dsn,
        ground.stack.databases.world_dsn, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    platform = Platform(ground)
    try:
        yield platform, Baseline(process, ground.postgres.pid)
    finally:
        await platform.close()
        process.terminate()
        await process.wait()
