"""What a run of a hosted graph costs: the engine with ledger, fence and events against LangGraph with its stock saver.

Both execute the same graphs in this process, with durability sync, so many runs at a time. CPU, user and system, is
that of this process and of Postgres; the engine's part has all of it: creating the run, claiming, watching, ending.
A round has the two by turns, here, alone, alone, here, so that a machine that grows slower meanwhile does so for both;
what is told is the median of the rounds' ratios, and between which of them the true median is in 95 of 100 cases. What
the engine does while it has no runs is taken from the other's part.
"""

from __future__ import annotations

import asyncio
import gc
import math
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from tests.bench.baseline import prepare
from tests.bench.cpu import CpuMeter
from tests.fixtures.hosted import FOLDER, HostedReplica, graph_alone, hosted_replica

GRAPHS: dict[str, dict[str, Any]] = {
    "calculator": {"messages": ["Add up."], "wanted": 2},
    "supervisor": {"todo": ["writer", "critic"], "done": []},
    "digest": {"words": ["one", "two", "three", "four", "five", "six", "seven", "eight"]},
    "rollout": {"kind": "full", "log": []},
    "assistant": {"messages": ["Add up."]},
}
RUNS, AT_ONCE = 16, 8
# As many as there is time for, and no fewer than an interval takes.
ROUNDS, LEAST_ROUNDS, LONGEST_S = 14, 6, 240.0
IDLE_S = 5.0
# As the runtime's settings have it.
SWEEP_INTERVAL_S = 0.5
STOCK = "stock"
RunOne = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Round:
    """The CPU of a run in one round, in ms."""

    here: float
    alone: float


class Meter:
    """The CPU of this process and of Postgres."""

    def __init__(self, postgres: CpuMeter) -> None:
        self._postgres = postgres
        # Of the engine without runs, in a second.
        self._idle_s = 0.0

    @property
    def _total_s(self) -> float:
        return time.process_time() + self._postgres.total_s()

    async def idle(self) -> None:
        """Measures what the engine does without runs."""
        before, began = self._total_s, time.monotonic()
        await asyncio.sleep(IDLE_S)
        self._idle_s = (self._total_s - before) / (time.monotonic() - began)

    async def cost_ms(self, one: RunOne, *, engine_idle: bool) -> float:
        """Returns the CPU of a run."""
        gc.collect()
        places = asyncio.Semaphore(AT_ONCE)

        async def placed() -> None:
            async with places:
                await one()

        before, began = self._total_s, time.monotonic()
        await asyncio.gather(*(placed() for _ in range(RUNS)))
        spent_s = self._total_s - before
        if engine_idle:
            spent_s -= self._idle_s * (time.monotonic() - began)
        return spent_s * 1000 / RUNS

    async def round(self, here: RunOne, alone: RunOne) -> Round:
        """Returns what both cost, by turns."""
        first = await self.cost_ms(here, engine_idle=False)
        second = await self.cost_ms(alone, engine_idle=True)
        third = await self.cost_ms(alone, engine_idle=True)
        return Round((first + await self.cost_ms(here, engine_idle=False)) / 2, (second + third) / 2)


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Returns between which of some ratios their distribution's median is, in 95 of 100 cases at least.

    By order statistics: how many of them are below it is binomial, whatever the distribution. Raises ValueError for
    fewer than six.
    """
    count = len(ratios)
    tails = [sum(math.comb(count, each) for each in range(left + 1)) / 2**count for left in range(count)]
    left = sum(tail <= 0.025 for tail in tails)
    if not left:
        raise ValueError(f"{count} rounds say nothing of their median")
    ordered = sorted(ratios)
    return ordered[left - 1], ordered[-left]


def ours(replica: HostedReplica, name: str) -> RunOne:
    """What runs a graph here."""

    async def one() -> None:
        run = await replica.run(name, GRAPHS[name])
        if run.state != "SUCCEEDED":
            raise RuntimeError(f"{name} ended {run.state}: {run.error}")

    return one


def plain(saver: AsyncPostgresSaver, name: str) -> RunOne:
    """What runs it by LangGraph alone."""
    made = graph_alone("kinds", name)
    graph = (made if not hasattr(made, "builder") else made.builder).compile(checkpointer=saver)

    async def one() -> None:
        await graph.ainvoke(GRAPHS[name], {"configurable": {"thread_id": str(uuid.uuid4())}}, durability="sync")

    return one


async def measure() -> dict[str, list[Round]]:
    """Returns the rounds by graph."""
    options = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
    found: dict[str, list[Round]] = {name: [] for name in GRAPHS}
    with EmbeddedPostgres() as postgres:
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {STOCK}")
        prepare(postgres.dsn(STOCK))
        migrate(postgres.dsn())
        async with (
            AsyncConnectionPool[AsyncConnection[dict[str, Any]]](
                postgres.dsn(STOCK), min_size=2, max_size=6, kwargs=options
            ) as pool,
            hosted_replica(postgres.dsn(), folder=FOLDER, sweep_interval_s=SWEEP_INTERVAL_S) as replica,
        ):
            saver, meter = AsyncPostgresSaver(pool), Meter(CpuMeter([postgres.pid]))
            contenders = {name: (ours(replica, name), plain(saver, name)) for name in GRAPHS}
            for both in contenders.values():  # which warms them up
                await meter.round(*both)
            await meter.idle()
            began = time.monotonic()
            for number in range(ROUNDS):
                if number >= LEAST_ROUNDS and time.monotonic() - began > LONGEST_S:
                    break
                for name, both in contenders.items():
                    found[name].append(await meter.round(*both))
    return found


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    found = asyncio.run(measure())
    rounds = min(map(len, found.values()))
    table = Table(title=f"CPU of a run of a hosted graph, {AT_ONCE} at once, {rounds} rounds of {4 * RUNS} runs")
    for heading in ("graph", "here", "LangGraph, stock saver", "times", "95 %"):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for name, of_graph in found.items():
        here, alone = (statistics.median(each) for each in zip(*((r.here, r.alone) for r in of_graph), strict=True))
        ratios = [each.here / each.alone for each in of_graph]
        least, most = interval(ratios)
        told = f"{statistics.median(ratios):.2f}", f"{least:.2f} to {most:.2f}"
        table.add_row(name, f"{here:.1f} ms", f"{alone:.1f} ms", *told)
    Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
