"""Runs a second and CPU a run with one to four replicas of the runtime, and one scripted model for all.

All four platforms are there at once, each with a Postgres of its own, and take turns. On a machine whose cores one
replica fills, more of them bring no more runs: what is to be seen there is what each costs.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from contextlib import AsyncExitStack

from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.local.stack import LocalStack
from services.local.topology import ModelEndpoint, StackOptions
from tests.bench.bench_platform import cpu_ms, speed, spread
from tests.bench.contenders import Batch, Platform
from tests.bench.curves import draw
from tests.bench.machine import machine
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, SCRIPT, scripted_model_process
from tests.fixtures.patience import START_TIMEOUT_S

REPLICAS = (1, 2, 3, 4)
ROUNDS, RUNS, CONCURRENT = 5, 60, 32


async def measure() -> dict[int, list[Batch]]:
    """Runs each, taking turns."""
    found: dict[int, list[Batch]] = {replicas: [] for replicas in REPLICAS}
    async with scripted_model_process(SCRIPT) as url, AsyncExitStack() as stack:
        model = ModelEndpoint(url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL)
        platforms: dict[int, Platform] = {}
        for replicas in REPLICAS:
            postgres = stack.enter_context(EmbeddedPostgres(start_timeout_s=START_TIMEOUT_S))
            options = StackOptions(
                postgres_dsn=postgres.dsn(), model=model, runtime_replicas=replicas, ready_timeout_s=START_TIMEOUT_S
            )
            local = await stack.enter_async_context(LocalStack(options))
            platforms[replicas] = Platform(local, postgres.pid)
            stack.push_async_callback(platforms[replicas].close)
            await platforms[replicas].batch(RUNS, CONCURRENT)
        for number in range(ROUNDS):
            first = number % len(REPLICAS)
            for replicas in (*REPLICAS[first:], *REPLICAS[:first]):
                found[replicas].append(await platforms[replicas].batch(RUNS, CONCURRENT))
    return found


def main() -> None:
    """Measures, and prints and draws it."""
    configure_logs("bench", "ERROR")
    found = asyncio.run(measure())
    table = Table(title=f"replicas of the runtime, {CONCURRENT} runs at once (medians of {ROUNDS} batches of {RUNS})")
    for heading in ("replicas", "runs/s", "against one", "CPU ms a run", "against one"):
        table.add_column(heading, justify="right")
    one = found[REPLICAS[0]]
    for replicas, batches in found.items():
        table.add_row(
            str(replicas),
            f"{statistics.median(map(speed, batches)):.1f}",
            spread(speed(each) / speed(first) for each, first in zip(batches, one, strict=True)),
            f"{statistics.median(map(cpu_ms, batches)):.1f}",
            spread(cpu_ms(each) / cpu_ms(first) for each, first in zip(batches, one, strict=True)),
        )
    console = Console(file=sys.stdout, width=110)
    console.print(table)
    console.print(machine(), highlight=False)
    lines = {
        "runs a second": [(float(n), statistics.median(map(speed, batches))) for n, batches in found.items()],
        "CPU ms a run": [(float(n), statistics.median(map(cpu_ms, batches))) for n, batches in found.items()],
    }
    title = f"Replicas of the runtime, {CONCURRENT} runs at once ({machine()})"
    draw("replicas", title, across="replicas", up="runs/s, ms", lines=lines, by_tens=True)


if __name__ == "__main__":
    main()
