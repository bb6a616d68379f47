"""The two that are compared: the whole platform, and the same graph in one process; one Postgres and model for both."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import psycopg
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.kit.identity.bearer import bearer_metadata
from services.local.postgres import EmbeddedPostgres
from services.local.stack import LocalStack
from services.local.topology import ModelEndpoint, StackOptions
from tests.bench.cpu import CpuMeters
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, QUESTION, Script, scripted_model_process

BASELINE_DATABASE = "baseline"
# One caller alone would meet the quotas of a caller.
CALLERS = 8
Metadata = tuple[tuple[str, str], ...]


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
async def ground(script: Script, *, settings: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Ground]:
    """Starts Postgres, the scripted model and the platform, and makes a database for the bare graph.

    `settings` are of Postgres, `options` as in `StackOptions`.
    """
    with EmbeddedPostgres(settings=settings) as postgres:
        async with scripted_model_process(script) as model_url:
            model = ModelEndpoint(model_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL)
            async with LocalStack(StackOptions(postgres_dsn=postgres.dsn(), model=model, **options)) as stack:
                with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {BASELINE_DATABASE}")
                yield Ground(postgres, stack, model_url)


@dataclass(frozen=True)
class Batch:
    """What a batch of runs took."""

    runs: int
    wall_s: float
    cpu_s: dict[str, float]
    # Of each run, from its request on; the platform's first events, which the bare graph has none of.
    took_s: Sequence[float]
    wal_bytes: int
    first_s: Sequence[float] = ()


def wal_bytes(dsn: str) -> int:
    """Where the write-ahead log is, in bytes since a server began, full-page images included."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [written] = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone() or (0,)
    return int(written)


class Platform:
    """Asks the platform over gRPC."""

    def __init__(self, stack: LocalStack, postgres_pid: int, channel: grpc.aio.Channel | None = None) -> None:
        self._channel = channel or grpc.aio.insecure_channel(stack.gateway_address)
        self._stub: Any = runs_pb2_grpc.RunServiceStub(self._channel)
        self._callers = itertools.cycle([(bearer_metadata(stack.token(str(27 + n))),) for n in range(CALLERS)])
        self._caller = next(self._callers)
        services = {service.name: service.pid for service in stack.services}
        self.meters = CpuMeters({**services, "postgres": postgres_pid})
        self._dsn = stack.databases.platform_dsn

    async def batch(self, runs: int, concurrency: int) -> Batch:
        """Asks the question so many times."""
        return await self.batch_of([_question()] * runs, concurrency)

    async def batch_of(
        self, inputs: Sequence[runs_pb2.RunInput], concurrency: int, check: Callable[[runs_pb2.Run], None] | None = None
    ) -> Batch:
        """Does a batch of runs; `check` is told of each that ended."""
        slots, loop = asyncio.Semaphore(concurrency), asyncio.get_running_loop()

        async def one(given: runs_pb2.RunInput, caller: Metadata) -> tuple[float, float]:
            async with slots:
                asked = loop.time()
                run, first = await self._run(runs_pb2.CreateRunRequest(input=given), caller)
                ended = loop.time()
            if check is not None:
                check(run)
            return ended - asked, first - asked

        written, before, start = wal_bytes(self._dsn), self.meters.total_s(), loop.time()
        times = await asyncio.gather(*(one(given, next(self._callers)) for given in inputs))
        wall_s, after = loop.time() - start, self.meters.total_s()
        return Batch(
            len(inputs),
            wall_s,
            {name: after[name] - before[name] for name in before},
            took_s=[took for took, _ in times],
            wal_bytes=wal_bytes(self._dsn) - written,
            first_s=[first for _, first in times],
        )

    async def ask(self, thread_id: str) -> None:
        """Asks the question once more in a thread."""
        await self._run(runs_pb2.CreateRunRequest(input=_question(), thread_id=thread_id), self._caller)

    async def _run(self, create: runs_pb2.CreateRunRequest, caller: Metadata) -> tuple[runs_pb2.Run, float]:
        """Returns a run that has ended, and when its first event came."""
        request, first = runs_pb2.ExecuteRunRequest(create=create), 0.0
        async for response in self._stub.ExecuteRun(request, metadata=caller):
            event, first = response.event, first or asyncio.get_running_loop().time()
        run: runs_pb2.Run = event.run_ended.run
        if run.state != runs_pb2.RUN_STATE_SUCCEEDED:
            raise RuntimeError(f"a run did not succeed: {event}")
        return run, first

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()


def _question() -> runs_pb2.RunInput:
    return runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=QUESTION))


class Baseline:
    """Asks the baseline process, whose graph asks models by ChatOpenAI and saves each step before the next."""

    def __init__(self, process: asyncio.subprocess.Process, postgres: EmbeddedPostgres, **how: Any) -> None:
        self._process = process
        self._postgres = postgres
        self._how = how
        self.meters = CpuMeters({"baseline": process.pid, "postgres": postgres.pid})

    def but(self, **how: Any) -> Baseline:
        """Returns the same process, asked otherwise: `lean`, `durability`."""
        return Baseline(self._process, self._postgres, **how)

    async def batch(self, runs: int, concurrency: int) -> Batch:
        """Does a batch."""
        written, before = wal_bytes(self._postgres.dsn()), self.meters.total_s()
        answer = await self._order({"runs": runs, "concurrency": concurrency, **self._how})
        after = self.meters.total_s()
        cpu_s = {name: after[name] - before[name] for name in before}
        return Batch(runs, answer["wall_s"], cpu_s, answer["took_s"], wal_bytes(self._postgres.dsn()) - written)

    async def ask(self, thread_id: str) -> None:
        """Asks the question once more in a thread."""
        await self._order({"runs": 1, "concurrency": 1, "thread": thread_id})

    async def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the baseline process ended; see its messages above")
        said: dict[str, Any] = json.loads(answer)
        return said


@asynccontextmanager
async def contenders(
    ground: Ground, channel: grpc.aio.Channel | None = None
) -> AsyncIterator[tuple[Platform, Baseline]]:
    """Yields both, ready to be asked; the platform through a channel of one's own, if given."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.baseline", ground.model_url, ground.baseline_dsn,
        ground.stack.databases.world_dsn, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    platform = Platform(ground.stack, ground.postgres.pid, channel)
    try:
        yield platform, Baseline(process, ground.postgres)
    finally:
        await platform.close()
        process.terminate()
        await process.wait()
