"""The whole platform against the same graph in one process: runs a second, CPU and WAL a run, and what runs take.

The bare graph is asked in three ways: as users write it, with the platform's own lean model client in it, and with
LangGraph's default durability, which loses steps when a process dies. All share one Postgres and one scripted model;
they take turns, in an order that turns too, so that whatever else the machine does falls on all, and ratios are of
batches that stood next to each other. The model's own CPU, and that of the clients asking, counts for nobody.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from tests.bench.contenders import Baseline, Batch, Platform, contenders, ground
from tests.bench.cpu import CpuMeter
from tests.bench.machine import Use, machine, share_of_others, warning
from tests.bench.model_script import SCRIPT

# One user at a time, and more.
CONCURRENCIES = (1, 8, 32, 128)
WARM_UP_AT_ONCE = 8
ROUNDS = 5
WARM_UP_RUNS = 40
# A batch is as many runs as the platform did in this time when it warmed up.
BATCH_S = 2.0
FEWEST_RUNS, MOST_RUNS = 40, 200
PLATFORM, BARE, LEAN, LANGGRAPH_S = "platform", "bare", "bare, lean client", "bare, LangGraph's durability"


@dataclass
class Found:
    """Batches by contender and concurrency, and what others had of the machine in each round."""

    batches: dict[tuple[str, int], list[Batch]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)

    @property
    def contenders(self) -> list[str]:
        """Who took turns, the platform first."""
        return list(dict.fromkeys(name for name, _ in self.batches))


async def measure(rounds: int) -> Found:
    """Runs all of them, taking turns."""
    async with ground(SCRIPT) as where, contenders(where) as (platform, baseline):
        return await take_turns(
            {
                PLATFORM: platform,
                BARE: baseline,
                LEAN: baseline.but(lean=True),
                LANGGRAPH_S: baseline.but(durability="async"),
            },
            rounds,
        )


async def take_turns(all_of_them: dict[str, Platform | Baseline], rounds: int) -> Found:
    """Has each do a batch at every concurrency, in every round; one of them is the platform."""
    found = Found()
    for contender in all_of_them.values():
        await contender.batch(WARM_UP_RUNS, WARM_UP_AT_ONCE)
    warm = await all_of_them[PLATFORM].batch(WARM_UP_RUNS, WARM_UP_AT_ONCE)
    runs = int(min(max(warm.runs / warm.wall_s * BATCH_S, FEWEST_RUNS), MOST_RUNS))
    names = list(all_of_them)
    # All that this measurement has started, and itself.
    own = CpuMeter([os.getpid()])
    for number in range(rounds):
        first = number % len(names)
        before, own_before = Use.now(), own.total_s()
        for concurrency in CONCURRENCIES:
            for name in (*names[first:], *names[:first]):
                batch = await all_of_them[name].batch(runs, concurrency)
                found.batches.setdefault((name, concurrency), []).append(batch)
        found.others.append(share_of_others(before, Use.now(), own.total_s() - own_before))
    return found


def speed(batch: Batch) -> float:
    """Runs a second."""
    return batch.runs / batch.wall_s


def cpu_ms(batch: Batch, process: str = "") -> float:
    """CPU a run, of one process or of all."""
    return (batch.cpu_s.get(process, 0.0) if process else sum(batch.cpu_s.values())) / batch.runs * 1000


def spread(ratios: Iterable[float]) -> str:
    """A median, and from where to where."""
    values = sorted(ratios)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def comparison(found: Found) -> Table:
    """The platform beside each bare graph, by concurrency."""
    ours = found.batches[PLATFORM, CONCURRENCIES[0]]
    table = Table(
        title=f"the platform against the bare graph: medians of {len(ours)} rounds of {ours[0].runs} runs each"
    )
    for heading in ("concurrent", "against", "runs/s", "its", "ratio", "CPU ms a run", "its", "ratio"):
        table.add_column(heading, justify="left" if heading == "against" else "right")
    for concurrency in CONCURRENCIES:
        ours = found.batches[PLATFORM, concurrency]
        for name in found.contenders[1:]:
            theirs = found.batches[name, concurrency]
            pairs = list(zip(ours, theirs, strict=True))
            table.add_row(
                str(concurrency), name,
                f"{_median(map(speed, ours)):.1f}", f"{_median(map(speed, theirs)):.1f}",
                spread(speed(one) / speed(other) for one, other in pairs),
                f"{_median(map(cpu_ms, ours)):.1f}", f"{_median(map(cpu_ms, theirs)):.1f}",
                spread(cpu_ms(one) / cpu_ms(other) for one, other in pairs),
            )  # fmt: skip
        table.add_section()
    return table


def breakdown(found: Found) -> Table:
    """CPU a run by process and concurrency, and the share of the contender's total at the lowest concurrency."""
    table = Table(title="CPU ms a run by process")
    for heading in ("", *(f"{concurrency} concurrent" for concurrency in CONCURRENCIES), "share"):
        table.add_column(heading, justify="right" if heading else "left")
    for contender in found.contenders:
        batches: Sequence[Batch] = found.batches[contender, CONCURRENCIES[0]]
        for process in batches[0].cpu_s:
            costs = [
                _median(cpu_ms(batch, process) for batch in found.batches[contender, concurrency])
                for concurrency in CONCURRENCIES
            ]
            share = f"{costs[0] / _median(map(cpu_ms, batches)):.0%}"
            table.add_row(f"{contender}: {process}", *(f"{cost:.1f}" for cost in costs), share)
        table.add_section()
    return table


def latency(found: Found) -> Table:
    """What a run takes from its request to its end and to its first event, and what it writes, over all rounds."""
    table = Table(title="milliseconds a run, 50th, 95th and 99th percentile; write-ahead log a run")
    for heading in ("concurrent", "", "to its end", "to its first event", "p95 / p50", "KB"):
        table.add_column(heading, justify="right" if heading else "left")
    for concurrency in CONCURRENCIES:
        for name in found.contenders:
            batches = found.batches[name, concurrency]
            firsts = percentiles([first for batch in batches for first in batch.first_s])
            table.add_row(
                str(concurrency), name, _in_ms(percentiles([took for batch in batches for took in batch.took_s])),
                _in_ms(firsts), f"{firsts[1] / firsts[0]:.1f}" if firsts else "",
                f"{_median(batch.wal_bytes / batch.runs for batch in batches) / 1000:.1f}",
            )  # fmt: skip
        table.add_section()
    return table


def percentiles(values: Sequence[float]) -> list[float]:
    """The 50th, 95th and 99th percentile; none of nothing."""
    if len(values) < 2:
        return list(values) * 3
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return [cuts[49], cuts[94], cuts[98]]


def _in_ms(values: Sequence[float]) -> str:
    return "  ".join(f"{value * 1000:.0f}" for value in values)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def show(found: Found) -> None:
    """Prints the ratios, where the CPU went, and the machine."""
    console = Console(file=sys.stdout, width=150)
    console.print(comparison(found))
    console.print(latency(found))
    console.print(breakdown(found))
    console.print(machine(), highlight=False)
    console.print(warning(found.others), highlight=False)


def main() -> None:
    """Measures, and prints the ratios."""
    show(asyncio.run(measure(ROUNDS)))


if __name__ == "__main__":
    main()
