"""The whole platform against the same graph in one process: runs a second, and CPU a run over all processes.

Both share one Postgres and one scripted model; batches of the two take turns, so that whatever else the machine does
falls on both. The model's own CPU, and that of the clients asking, counts for neither.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from dataclasses import dataclass, field
from typing import Any

import grpc
import psycopg
from rich.console import Console
from rich.table import Table
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.cli.local.postgres import EmbeddedPostgres
from services.cli.local.stack import LocalStack
from services.cli.local.topology import ModelEndpoint, StackOptions
from services.kit.identity import bearer_metadata
from tests.bench.cpu import CpuMeter
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, QUESTION, scripted_model_process

CONCURRENCIES = (8, 32)
RUNS = 150
ROUNDS = 3
BASELINE_DATABASE = "baseline"


@dataclass
class Series:
    """One contender's batches at one concurrency."""

    runs_per_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def add(self, runs: int, wall_s: float, cpu_s: float) -> None:
        """Notes a batch."""
        self.runs_per_s.append(runs / wall_s)
        self.cpu_ms.append(cpu_s / runs * 1000)


class Platform:
    """Asks the platform over gRPC."""

    def __init__(self, stack: LocalStack, postgres_pid: int) -> None:
        self._stack = stack
        self._channel = grpc.aio.insecure_channel(stack.gateway_address)
        self._stub = runs_pb2_grpc.RunServiceStub(self._channel)
        self._metadata = [bearer_metadata(stack.token("27"))]
        self._meter = CpuMeter([postgres_pid, *(service.pid for service in stack.services if service.pid)])

    async def batch(self, runs: int, concurrency: int) -> tuple[float, float]:
        """Does a batch; returns wall and CPU seconds."""
        slots = asyncio.Semaphore(concurrency)
        loop = asyncio.get_running_loop()
        cpu, start = self._meter.total_s(), loop.time()
        await asyncio.gather(*(self._ask(slots) for _ in range(runs)))
        return loop.time() - start, self._meter.total_s() - cpu

    async def _ask(self, slots: asyncio.Semaphore) -> None:
        asked = data_chat_pb2.DataChatInput(question=QUESTION)
        request = runs_pb2.ExecuteRunRequest(create=runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(data_chat=asked)))
        async with slots:
            async for response in self._stub.ExecuteRun(request, metadata=self._metadata):
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
        self._meter = CpuMeter([postgres_pid, process.pid])

    async def batch(self, runs: int, concurrency: int) -> tuple[float, float]:
        """Does a batch; returns wall and CPU seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        cpu = self._meter.total_s()
        self._process.stdin.write(json.dumps({"runs": runs, "concurrency": concurrency}).encode() + b"\n")
        wall_s = json.loads(await self._process.stdout.readline())["wall_s"]
        return wall_s, self._meter.total_s() - cpu


async def measure() -> dict[tuple[str, int], Series]:
    """Runs both, taking turns."""
    found: dict[tuple[str, int], Series] = {}
    with EmbeddedPostgres() as postgres:
        async with scripted_model_process() as base_url:
            model = ModelEndpoint(base_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL)
            options = StackOptions(postgres_dsn=postgres.dsn(), model=model, log_level="INFO")
            async with LocalStack(options) as stack:
                with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {BASELINE_DATABASE}")
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tests.bench.baseline", base_url, postgres.dsn(BASELINE_DATABASE),
                    stack.databases.world_dsn, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                platform = Platform(stack, postgres.pid)
                contenders: dict[str, Any] = {"platform": platform, "baseline": Baseline(process, postgres.pid)}
                try:
                    await _take_turns(contenders, found)
                finally:
                    await platform.close()
                    process.terminate()
                    await process.wait()
    return found


async def _take_turns(contenders: dict[str, Any], found: dict[tuple[str, int], Series]) -> None:
    for contender in contenders.values():
        await contender.batch(30, 8)
    for concurrency in CONCURRENCIES:
        for _ in range(ROUNDS):
            for name, contender in contenders.items():
                wall_s, cpu_s = await contender.batch(RUNS, concurrency)
                found.setdefault((name, concurrency), Series()).add(RUNS, wall_s, cpu_s)


def main() -> None:
    """Measures, and prints the ratios."""
    found = asyncio.run(measure())
    table = Table(title="platform against the bare in-process graph (medians of interleaved batches)")
    for heading in ("concurrent", "runs/s", "baseline runs/s", "ratio", "CPU ms/run", "baseline", "ratio"):
        table.add_column(heading, justify="right")
    for concurrency in CONCURRENCIES:
        ours, theirs = found["platform", concurrency], found["baseline", concurrency]
        speed, their_speed = statistics.median(ours.runs_per_s), statistics.median(theirs.runs_per_s)
        cpu, their_cpu = statistics.median(ours.cpu_ms), statistics.median(theirs.cpu_ms)
        table.add_row(
            str(concurrency), f"{speed:.1f}", f"{their_speed:.1f}", f"{speed / their_speed:.2f}",
            f"{cpu:.1f}", f"{their_cpu:.1f}", f"{cpu / their_cpu:.2f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
