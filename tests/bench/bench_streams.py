"""What 5,000 open streams on runs that wait for what is away cost each service, and how late news gets there.

Every stream is a `WatchRun` call through the gateway, to one of two replicas of the runtime. Some of the runs are
cancelled then, through whichever replica the call reaches.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, field

import grpc
import psutil
import psycopg
from rich.console import Console
from rich.table import Table
from signalbox.v1 import runs_pb2

from services.kit.telemetry.logs import configure_logs
from tests.bench.cpu import CpuMeters
from tests.chaos.deployment import Deployment, deployment
from tests.fixtures.client import RunClient

STREAMS, ENDS, CALLERS = 5000, 200, 10
IDLE_S = 30.0
OPEN_TIMEOUT_S = 600.0
AT_ONCE = 50
_WAITING = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
        created_at, expires_at, event_count, not_before, waiting_for)
    SELECT platform.first_run_id(now() + n * interval '1 ms'), 'data_chat', '1', (n %% %(callers)s)::text, '{}', 'c',
        'PENDING', '', '{"model_calls": 1, "tool_calls": 1, "tokens": 1, "wall_time_s": 1}', now(),
        now() + interval '1 day', 1, now() + interval '1 day', 'model'
    FROM generate_series(1, %(runs)s) AS n
    RETURNING run_id::text, subject
"""
_BEGUN = """
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, 1, 'state_changed', '{"state": "PENDING"}' FROM platform.runs
"""


@dataclass
class Streams:
    """The open streams, and when each was told of its run's end."""

    opened: int = 0
    told_at: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    async def watch(self, client: RunClient, run_id: str, room: asyncio.Semaphore) -> None:
        """Watches a run to its end; a stream that is cut is counted."""
        request = runs_pb2.WatchRunRequest(run_id=run_id)
        try:
            async with room:
                call = client.stub.WatchRun(request, metadata=client.metadata)
                await call.read()
            self.opened += 1
            while isinstance(response := await call.read(), runs_pb2.WatchRunResponse):
                if response.event.HasField("run_ended"):
                    self.told_at[run_id] = time.perf_counter()
        except grpc.aio.AioRpcError as error:
            self.broken.append(f"{error.code().name}: {error.details()}")


@dataclass(frozen=True)
class Found:
    """What there was to measure: CPU by process in shares of a core, times in seconds."""

    cpu: dict[str, float]
    late: list[float]
    broken: int
    connections: int


def waiting_runs(dsn: str, count: int) -> list[tuple[str, str]]:
    """Writes down runs that wait for a model; returns id and caller of each."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        runs = connection.execute(_WAITING, {"runs": count, "callers": CALLERS}).fetchall()
        connection.execute(_BEGUN)
        connection.execute("ANALYZE")
    return runs


async def measure(count: int) -> Found:
    """Opens the streams, looks at them while nothing happens, then ends some of the runs."""
    env = {"gateway": {"SIGNALBOX_QUOTA_CONCURRENT_STREAMS": "100000", "SIGNALBOX_QUOTA_BURST": "100000"}}
    async with deployment(replicas=2, service_env=env) as deployed:
        runs = await asyncio.to_thread(waiting_runs, deployed.dsn, count)
        async with grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel:
            clients = {str(number): RunClient(channel, deployed.stack.token(str(number))) for number in range(CALLERS)}
            streams, room = Streams(), asyncio.Semaphore(AT_ONCE)
            tasks = [asyncio.create_task(streams.watch(clients[caller], run_id, room)) for run_id, caller in runs]
            try:
                return await _observe(deployed, streams, runs, clients)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _observe(
    deployed: Deployment, streams: Streams, runs: list[tuple[str, str]], clients: dict[str, RunClient]
) -> Found:
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        while streams.opened < len(runs):
            await asyncio.sleep(0.5)
            if streams.broken:
                raise RuntimeError(f"{len(streams.broken)} streams broke, with {set(streams.broken)}")
    gateway = deployed.stack.service("gateway")
    pids = {"gateway": gateway.pid, "postgres": deployed.postgres.pid}
    pids |= {f"runtime {number}": each.pid for number, each in enumerate(deployed.stack.runtimes, start=1)}
    meters = CpuMeters(pids)
    before, began = meters.total_s(), time.perf_counter()
    await asyncio.sleep(IDLE_S)
    elapsed = time.perf_counter() - began
    cpu = {name: (after - before[name]) / elapsed for name, after in meters.total_s().items()}
    connections = len(psutil.Process(gateway.pid).net_connections("tcp"))
    ended_at = {}
    for run_id, caller in runs[:: max(1, len(runs) // ENDS)]:
        await clients[caller].cancel(run_id)
        ended_at[run_id] = time.perf_counter()
    async with asyncio.timeout(60):
        while len(streams.told_at) < len(ended_at):  # noqa: ASYNC110 - a bench
            await asyncio.sleep(0.05)
    late = [max(0.0, streams.told_at[run_id] - at) for run_id, at in ended_at.items()]
    return Found(cpu, late, len(streams.broken), connections)


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    count = int(sys.argv[2]) if sys.argv[2:] else STREAMS
    found = asyncio.run(measure(count))
    table = Table(title=f"{count} open streams through the gateway, on runs that wait", show_header=False)
    for name, share in found.cpu.items():
        table.add_row(f"{name}, nothing happens", f"{share:.1%} of a core")
    table.add_row("together", f"{sum(found.cpu.values()):.1%} of a core")
    table.add_row("an event, median", f"{statistics.median(found.late) * 1000:.0f} ms")
    table.add_row("latest", f"{max(found.late) * 1000:.0f} ms")
    table.add_row("streams that broke", str(found.broken))
    table.add_row("connections of the gateway", str(found.connections))
    Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
