"""What 5,000 open streams on runs that wait cost a replica, and how late what happens elsewhere reaches them.

The streams are the engine's, without gRPC around them; the CPU is that of the replica's process and of the server's
sessions. The runs end one after another, by another replica's hand.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from services.runtime.engine.database import Pools, open_pool
from services.runtime.engine.records import RunRecord
from services.runtime.engine.store import RunStore
from tests.bench.cpu import CpuMeter
from tests.fixtures.replica import Counting, Replica, counting_pins, open_replica
from tests.integration.runtime.conftest import new_run

STREAMS, ENDS = 5000, 400
IDLE_S, PAUSE_S = 20.0, 0.02


@dataclass
class Watched:
    """Streams, and when each was told of the end of its run."""

    told_at: dict[str, float] = field(default_factory=dict)

    async def watch(self, replica: Replica, run: RunRecord) -> None:
        """Watches a run to its end."""
        async for event in replica.engine.watch(run, 0):
            if event.is_last:
                self.told_at[run.run_id] = time.perf_counter()


@dataclass(frozen=True)
class Found:
    """What there was to measure, in seconds."""

    replica_cpu: float
    server_cpu: float
    elapsed: float
    late: Sequence[float]


async def measure(streams: int) -> Found:
    """Opens the streams, looks at them idle, then ends some of their runs."""
    with EmbeddedPostgres(durable=False) as postgres:
        await asyncio.to_thread(migrate, postgres.dsn())
        async with (
            open_pool(postgres.dsn(), size=2) as pool,
            open_replica(
                postgres.dsn(), Counting(), max_concurrent_runs=0, sweep_interval_s=0.5, pool_size=16
            ) as replica,
        ):
            other = RunStore(Pools.shared(pool), counting_pins(pool), owner="other", lease_s=15)
            runs = [(await other.create(new_run(), claim=False))[0] for _ in range(streams)]
            watched = Watched()
            watching = [asyncio.create_task(watched.watch(replica, run)) for run in runs]
            async with pool.connection() as connection:
                count = 0
                while count < streams or replica.pools.calls.waiting_count:
                    await asyncio.sleep(0.2)
                    cursor = await connection.execute("SELECT count(*) FROM platform.watches")
                    [[count]] = await cursor.fetchall()
            await asyncio.sleep(5)
            server = CpuMeter([postgres.pid])
            before, server_before, began = time.process_time(), server.total_s(), time.perf_counter()
            await asyncio.sleep(IDLE_S)
            elapsed = time.perf_counter() - began
            replica_cpu, server_cpu = time.process_time() - before, server.total_s() - server_before
            ended_at = {}
            for run in runs[:: max(1, streams // ENDS)]:
                await other.cancel(run.run_id, run.caller)
                ended_at[run.run_id] = time.perf_counter()
                await asyncio.sleep(PAUSE_S)
            async with asyncio.timeout(60):
                while len(watched.told_at) < len(ended_at):  # noqa: ASYNC110 - a bench
                    await asyncio.sleep(0.05)
            late = [watched.told_at[run_id] - at for run_id, at in ended_at.items()]
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            return Found(replica_cpu, server_cpu, elapsed, late)


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    streams = int(sys.argv[2]) if sys.argv[2:] else STREAMS
    found = asyncio.run(measure(streams))
    table = Table(title=f"{streams} open streams on runs that wait", show_header=False)
    table.add_row("replica, nothing happens", f"{found.replica_cpu / found.elapsed:.1%} of a core")
    table.add_row("Postgres, nothing happens", f"{found.server_cpu / found.elapsed:.1%} of a core")
    table.add_row("an event elsewhere, median", f"{statistics.median(found.late) * 1000:.0f} ms")
    table.add_row("latest", f"{max(found.late) * 1000:.0f} ms")
    Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
