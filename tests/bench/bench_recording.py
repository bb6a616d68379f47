"""What it costs to record decisions: one platform, whose runtime records in one batch and not in the next.

Two platforms beside each other would differ by more than what is measured. The ratios are of pairs of batches.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.local.stack import LocalStack
from services.local.topology import ModelEndpoint, StackOptions
from tests.bench.bench_platform import cpu_ms
from tests.bench.contenders import Batch, Platform
from tests.bench.machine import machine
from tests.bench.model_script import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, SCRIPT, scripted_model_process

WARM_UP_RUNS, RUNS, CONCURRENCY, ROUNDS = 100, 100, 8, 25
# Of a run's CPU: a goal, as a pair of batches differs by more.
GOAL = 0.03
SWITCHED = {"runtime": {"PYTHONPATH": str(Path(__file__).with_name("recording_switch"))}}


@dataclass
class Switched:
    """A platform whose runtime's recording can be switched; it begins with recording."""

    platform: Platform
    stack: LocalStack
    is_on: bool = True

    async def batch(self, *, recorded: bool) -> Batch:
        """Does a batch of runs. Raises AssertionError when the ledger has grown otherwise than it should."""
        if recorded != self.is_on:
            os.kill(self.stack.service("runtime").pid, signal.SIGUSR2)
            self.is_on = recorded
        before = self._decisions()
        batch = await self.platform.batch(RUNS, CONCURRENCY)
        assert (self._decisions() > before) == recorded
        return batch

    def _decisions(self) -> int:
        with psycopg.connect(self.stack.databases.platform_dsn) as connection:
            row = connection.execute("SELECT count(*) FROM platform.decisions").fetchone()
        assert row is not None
        return int(row[0])


@asynccontextmanager
async def _switched() -> AsyncIterator[Switched]:
    with EmbeddedPostgres() as postgres:
        async with scripted_model_process(SCRIPT) as model_url:
            model = ModelEndpoint(model_url, "none", GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL)
            options = StackOptions(postgres_dsn=postgres.dsn(), model=model, service_env=SWITCHED)
            async with LocalStack(options) as stack:
                platform = Platform(stack, postgres.pid)
                try:
                    yield Switched(platform, stack)
                finally:
                    await platform.close()


async def measure() -> list[tuple[Batch, Batch]]:
    """Returns pairs of batches, with and without recording."""
    async with _switched() as switched:
        await switched.platform.batch(WARM_UP_RUNS, CONCURRENCY)
        pairs = []
        for number in range(ROUNDS):
            # What stands first is no better off than what stands second.
            batches = {on: await switched.batch(recorded=on) for on in (number % 2 == 0, number % 2 == 1)}
            pairs.append((batches[True], batches[False]))
        return pairs


def main() -> None:
    """Measures, and prints the cost."""
    configure_logs("bench", "ERROR")
    pairs = asyncio.run(measure())
    costs = sorted(cpu_ms(on) / cpu_ms(off) - 1 for on, off in pairs)
    table = Table(title=f"CPU ms a run, medians of {ROUNDS} batches of {RUNS}, {CONCURRENCY} at once")
    for heading in ("", "recorded", "not recorded"):
        table.add_column(heading, justify="right" if heading else "left")
    for process in ("", *pairs[0][0].cpu_s):
        parts = (statistics.median(cpu_ms(pair[number], process) for pair in pairs) for number in range(2))
        table.add_row(process or "all", *(f"{part:.2f}" for part in parts))
    console = Console(file=sys.stdout, width=110)
    console.print(table)
    quarter = len(costs) // 4
    console.print(
        f"recording costs {statistics.median(costs):.1%} of a run's CPU (half of the pairs: {costs[quarter]:.1%} to "
        f"{costs[-1 - quarter]:.1%}; goal {GOAL:.0%})"
    )
    console.print(machine(), highlight=False)


if __name__ == "__main__":
    main()
