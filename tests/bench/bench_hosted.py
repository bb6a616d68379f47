"""What a run of a hosted graph costs: the engine with ledger, fence and events against LangGraph with its stock saver.

Both execute the same graphs in this process, with durability sync, so many runs at a time; the contenders take turns.
CPU is that of this process and of Postgres. The engine's part has all of it: creating the run, claiming, watching,
ending.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
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
RUNS, AT_ONCE, ROUNDS = 32, 8, 5
STOCK = "stock"
RunOne = Callable[[], Awaitable[None]]


async def cost_ms(one: RunOne, postgres: CpuMeter) -> float:
    """Returns the CPU of a run."""
    gc.collect()
    places = asyncio.Semaphore(AT_ONCE)

    async def placed() -> None:
        async with places:
            await one()

    before = time.process_time() + postgres.total_s()
    await asyncio.gather(*(placed() for _ in range(RUNS)))
    return (time.process_time() + postgres.total_s() - before) * 1000 / RUNS


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


async def measure() -> dict[str, list[tuple[float, float]]]:
    """Returns the cost of both in each round, by graph."""
    options = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in GRAPHS}
    with EmbeddedPostgres() as postgres:
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {STOCK}")
        prepare(postgres.dsn(STOCK))
        migrate(postgres.dsn())
        meter = CpuMeter([postgres.pid])
        async with (
            AsyncConnectionPool[AsyncConnection[dict[str, Any]]](
                postgres.dsn(STOCK), min_size=2, max_size=6, kwargs=options
            ) as pool,
            hosted_replica(postgres.dsn(), folder=FOLDER) as replica,
        ):
            saver = AsyncPostgresSaver(pool)
            for number in range(1 + ROUNDS):
                for name in GRAPHS:
                    costs = await cost_ms(ours(replica, name), meter), await cost_ms(plain(saver, name), meter)
                    if number:  # the first round warms up
                        found[name].append(costs)
    return found


def main() -> None:
    """Measures, and prints it."""
    configure_logs("bench", "ERROR")
    found = asyncio.run(measure())
    table = Table(title=f"CPU of a run of a hosted graph, {AT_ONCE} at once, {ROUNDS} rounds of {RUNS}")
    for heading in ("graph", "here", "LangGraph, stock saver", "times"):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for name, rounds in found.items():
        here, alone = (statistics.median(each) for each in zip(*rounds, strict=True))
        times = statistics.median(first / second for first, second in rounds)
        table.add_row(name, f"{here:.1f} ms", f"{alone:.1f} ms", f"{times:.2f}")
    Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
