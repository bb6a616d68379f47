"""The whole platform against the same graph in one process: runs a second, and CPU a run over all processes.

Both share one Postgres and one scripted model; batches of the two take turns, so that whatever else the machine does
falls on both. The model's own CPU, and that of the clients asking, counts for neither.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tests.bench.contenders import Baseline, Batch, Platform, contenders, ground
from tests.bench.model_script import SCRIPT

CONCURRENCIES = (8, 32, 128)
ROUNDS = 3
WARM_UP_RUNS = 40
# A batch is as many runs as the platform did in this time when it warmed up.
BATCH_S = 3.0
FEWEST_RUNS, MOST_RUNS = 60, 300
PLATFORM, BASELINE = "platform", "baseline"

Found = dict[tuple[str, int], list[Batch]]


async def measure() -> Found:
    """Runs both, taking turns."""
    async with ground(SCRIPT) as where, contenders(where) as (platform, baseline):
        return await _take_turns({PLATFORM: platform, BASELINE: baseline})


async def _take_turns(both: dict[str, Platform | Baseline]) -> Found:
    found: Found = {}
    for contender in both.values():
        await contender.batch(WARM_UP_RUNS, CONCURRENCIES[0])
    warm = await both[PLATFORM].batch(WARM_UP_RUNS, CONCURRENCIES[0])
    runs = int(min(max(warm.runs / warm.wall_s * BATCH_S, FEWEST_RUNS), MOST_RUNS))
    for _ in range(ROUNDS):
        for concurrency in CONCURRENCIES:
            for name, contender in both.items():
                found.setdefault((name, concurrency), []).append(await contender.batch(runs, concurrency))
    return found


def runs_per_s(batches: Iterable[Batch]) -> float:
    """The median of the batches."""
    return statistics.median(batch.runs / batch.wall_s for batch in batches)


def cpu_ms(batches: Iterable[Batch], process: str = "") -> float:
    """CPU a run, of one process or of all: the median of the batches."""
    return statistics.median(
        (batch.cpu_s.get(process, 0) if process else sum(batch.cpu_s.values())) / batch.runs * 1000 for batch in batches
    )


def comparison(found: Found) -> Table:
    """Both, by concurrency."""
    runs = found[PLATFORM, CONCURRENCIES[0]][0].runs
    table = Table(title=f"platform against the bare in-process graph (medians of {ROUNDS} batches of {runs}, by turns)")
    for heading in ("concurrent", "runs/s", "baseline runs/s", "ratio", "CPU ms/run", "baseline", "ratio"):
        table.add_column(heading, justify="right")
    for concurrency in CONCURRENCIES:
        ours, theirs = found[PLATFORM, concurrency], found[BASELINE, concurrency]
        speed, their_speed, cpu, their_cpu = runs_per_s(ours), runs_per_s(theirs), cpu_ms(ours), cpu_ms(theirs)
        table.add_row(
            str(concurrency), f"{speed:.1f}", f"{their_speed:.1f}", f"{speed / their_speed:.2f}",
            f"{cpu:.1f}", f"{their_cpu:.1f}", f"{cpu / their_cpu:.2f}",
        )  # fmt: skip
    return table


def breakdown(found: Found) -> Table:
    """CPU a run by process and concurrency, and the share of the platform's total at the lowest concurrency."""
    table = Table(title="CPU ms/run by process")
    for heading in ("", *(f"{concurrency} concurrent" for concurrency in CONCURRENCIES), "share"):
        table.add_column(heading, justify="right" if heading else "left")
    for contender in (PLATFORM, BASELINE):
        for process in found[contender, CONCURRENCIES[0]][0].cpu_s:
            costs = [cpu_ms(found[contender, concurrency], process) for concurrency in CONCURRENCIES]
            name = process if contender in (PLATFORM, process) else f"{contender}: {process}"
            share = f"{costs[0] / cpu_ms(found[contender, CONCURRENCIES[0]]):.0%}"
            table.add_row(name, *(f"{cost:.1f}" for cost in costs), share)
        table.add_section()
    return table


def main() -> None:
    """Measures, and prints the ratios."""
    found = asyncio.run(measure())
    console = Console(file=sys.stdout, width=110)
    console.print(comparison(found))
    console.print(breakdown(found))


if __name__ == "__main__":
    main()
