"""One thread of many turns: what a further turn costs against the first one of a new thread, asked right after it.

Minutes lie between the turns of a long thread, in which a machine's speed changes by a tenth: so the two are compared
that stand next to each other. Beside it, in the same run, the bare graph with the stock saver, whose thread keeps all
messages in its state. Bytes are those of the write-ahead log, without full-page images, which depend on when Postgres
last wrote its pages out.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import uuid
from dataclasses import dataclass, field

import psycopg
from rich.console import Console
from rich.table import Table

from tests.bench.contenders import Baseline, Platform, contenders, ground
from tests.bench.curves import draw
from tests.bench.machine import machine
from tests.bench.model_script import SEQUENTIAL_SCRIPT

PLATFORM, BARE = "platform", "bare graph, stock saver"
# A tenth of them is enough to see where the bare graph is going.
TURNS = {PLATFORM: 1000, BARE: 60}
# A single turn says little on a machine that does other things too, and CPU is counted in ticks: so many are compared.
PAIRS = {PLATFORM: 100, BARE: 20}
WINDOW = 20  # turns that are a point of the curve
WARM_UP_TURNS = 20
SETTINGS = {"full_page_writes": "off", "autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}


@dataclass(frozen=True)
class Turn:
    """What a turn took."""

    cpu_ms: float
    wall_ms: float
    wal_bytes: float


class Meter:
    """Measures turns, one at a time."""

    def __init__(self, observer: psycopg.Connection[tuple[float]]) -> None:
        self._observer = observer

    async def turn(self, contender: Platform | Baseline, thread_id: str) -> Turn:
        """Asks once more in a thread."""
        before, cpu_before, start = self._written(), _cpu_s(contender), time.perf_counter()
        await contender.ask(thread_id)
        wall_s = time.perf_counter() - start
        return Turn((_cpu_s(contender) - cpu_before) * 1000, wall_s * 1000, self._written() - before)

    def _written(self) -> float:
        row = self._observer.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float").fetchone()
        return row[0] if row else 0


def _cpu_s(contender: Platform | Baseline) -> float:
    return sum(contender.meters.total_s().values())


@dataclass
class Found:
    """What the turns of a long thread took on its way there, and then, each beside the first of a new thread."""

    way: list[Turn] = field(default_factory=list)
    late: list[Turn] = field(default_factory=list)
    first: list[Turn] = field(default_factory=list)


async def measure() -> dict[str, Found]:
    """Measures each contender; on the way to their last turns the two take turns."""
    async with ground(SEQUENTIAL_SCRIPT, settings=SETTINGS) as where, contenders(where) as both:
        with psycopg.connect(where.postgres.dsn(), autocommit=True) as observer:
            meter = Meter(observer)
            contestants: dict[str, Platform | Baseline] = dict(zip(TURNS, both, strict=True))
            found = {name: Found() for name in TURNS}
            threads = {name: uuid.uuid4().hex for name in TURNS}
            for contender in contestants.values():
                await warm_up(contender)
            for number in range(max(TURNS.values())):
                for name, contender in contestants.items():
                    if number < TURNS[name]:
                        found[name].way.append(await meter.turn(contender, threads[name]))
            for name, contender in contestants.items():
                for _ in range(PAIRS[name]):
                    found[name].first.append(await meter.turn(contender, uuid.uuid4().hex))
                    found[name].late.append(await meter.turn(contender, threads[name]))
            return found


async def warm_up(contender: Platform | Baseline) -> None:
    """Asks until statements are prepared and caches filled, in a thread that does not count."""
    thread_id = uuid.uuid4().hex
    for _ in range(WARM_UP_TURNS):
        await contender.ask(thread_id)


def draw_curves(found: dict[str, Found]) -> None:
    """Draws what a turn took, by its number, in means; a curve's slope is the machine's too."""
    lines: dict[str, list[tuple[float, float]]] = {
        name: [
            (start + WINDOW / 2, statistics.mean(turn.cpu_ms for turn in each.way[start : start + WINDOW]))
            for start in range(0, len(each.way) - WINDOW + 1, WINDOW)
        ]
        for name, each in found.items()
    }
    draw("turns", f"A turn of a thread, means of {WINDOW} ({machine()})", across="turn", up="CPU ms", lines=lines)


def main() -> None:
    """Measures, and prints the ratios."""
    found = asyncio.run(measure())
    draw_curves(found)
    table = Table(title="a further turn of a long thread against the first of a new one, by turns (of ms, medians)")
    measures = {
        "CPU ms": ("cpu_ms", ".1f", statistics.mean),
        "ms": ("wall_ms", ".1f", statistics.median),
        "bytes": ("wal_bytes", ",.0f", statistics.mean),
    }
    of_each = [f"{name}{which}" for name in measures for which in (" first", " further", ": ratio")]
    for heading in ("", "turns", "pairs", *of_each):
        table.add_column(heading, justify="right" if heading else "left")
    for name, each in found.items():
        cells = []
        for measured, form, middle in measures.values():
            first, late = (
                middle([float(getattr(turn, measured)) for turn in turns]) for turns in (each.first, each.late)
            )
            cells += [format(first, form), format(late, form), f"{late / first:.2f}"]
        table.add_row(name, str(len(each.way)), str(len(each.late)), *cells)
    console = Console(file=sys.stdout, width=160)
    console.print(table)
    console.print(machine(), highlight=False)


if __name__ == "__main__":
    main()
