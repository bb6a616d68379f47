"""What a checkpoint costs as the history grows: this saver against the stock one, and the graph with neither.

Each contender runs the same graph, whose steps add one message (or one entry of a map) to a state that has some
already. The starting state is written before the measurement begins. CPU is that of this process and of Postgres; bytes
are those of the write-ahead log, without full-page images, which depend on when Postgres last wrote its pages out.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import statistics
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from services.runtime.engine.claim import Claim
from services.runtime.engine.database import open_pool
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.routing.state import append
from tests.bench.baseline import prepare
from tests.bench.cpu import CpuMeter

SIZES = (10, 100, 1_000, 5_000)
CHANNELS = ("messages", "code")
RUNS = 8
STEPS = 25
# The stock saver writes all of the history with every step: of long ones, a few steps are enough to see it.
LONG = 1_000
STOCK_RUNS, STOCK_ITEMS = 2, 8_000
ROUNDS = 3
BATCH_TIMEOUT_S = 60
POOL_SIZE = 8
OURS, STOCK, BARE = "ours", "stock", "bare"
CLAIMED_RUN = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
        epoch, claim_id)
    VALUES (%(run_id)s, 'bench', '1', 'bench', '{}', 'bench', 'RUNNING', '', '{}', 1, %(run_id)s)
"""
SETTINGS = {"full_page_writes": "off", "autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}

Saver = BaseCheckpointSaver[Any] | None


def merge(items: dict[str, str] | None, more: dict[str, str]) -> dict[str, str]:
    """The reducer of a map that only grows."""
    return {**(items or {}), **more}


class State(TypedDict, total=False):
    """A conversation, and code that was fetched."""

    messages: Annotated[list[AnyMessage], append]
    code: Annotated[dict[str, str], merge]
    left: int


@dataclass(frozen=True)
class Cost:
    """Of one step."""

    client_ms: float = 0.0
    postgres_ms: float = 0.0
    wal_bytes: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU of both."""
        return self.client_ms + self.postgres_ms


def text(seed: int) -> str:
    """400 characters that do not compress."""
    return hashlib.shake_256(str(seed).encode()).hexdigest(200)


def starting_state(channel: str, size: int) -> State:
    """A state with so many items in one of its channels."""
    if channel == "code":
        return {"messages": [], "code": {f"src/module_{number}.py": text(number) for number in range(size)}}
    kinds = (HumanMessage, AIMessage)
    return {"messages": [kinds[number % 2](text(number), id=f"m{number}") for number in range(size)], "code": {}}


class Steps:
    """The graph's only node, which adds an item to a channel; every run waits in its first step for all the others."""

    def __init__(self, channel: str, runs: int, steps: int) -> None:
        self._channel, self._steps = channel, steps
        self.ready, self.begin = asyncio.Barrier(runs + 1), asyncio.Event()

    async def step(self, state: State) -> State:
        """Adds an item."""
        left = state["left"]
        if left == self._steps:
            await self.ready.wait()
            await self.begin.wait()
        if self._channel == "code":
            return {"left": left - 1, "code": {f"src/new_{left}.py": text(-left)}}
        return {"left": left - 1, "messages": [AIMessage(text(-left), id=f"new{left}")]}

    def compile(self, saver: Saver) -> Any:
        """Builds the graph."""
        builder = StateGraph(State)
        builder.add_node("step", self.step)
        builder.add_edge(START, "step")
        builder.add_conditional_edges("step", lambda state: "step" if state["left"] else END, ["step", END])
        return builder.compile(checkpointer=saver)


@dataclass(frozen=True)
class Bench:
    """Measures batches of runs that go on at the same time."""

    ours: AsyncConnectionPool[Any]
    stock: AsyncConnectionPool[Any]
    observer: psycopg.Connection[Any]
    postgres: CpuMeter

    async def batch(self, contender: str, channel: str, size: int) -> Cost:
        """Returns what a step costs a contender whose state has so many items."""
        few = contender == STOCK and size >= LONG
        run_count, steps = (STOCK_RUNS, max(4, STOCK_ITEMS // size)) if few else (RUNS, STEPS)
        start = State(**starting_state(channel, size), left=steps)
        node = Steps(channel, run_count, steps)
        gc.collect()
        async with asyncio.timeout(BATCH_TIMEOUT_S):
            async with asyncio.TaskGroup() as runs:
                for _ in range(run_count):
                    runs.create_task(self._run(contender, node, start))
                await node.ready.wait()
                before = self._read()
                node.begin.set()
            after = self._read()
        client_s, postgres_s, wal_bytes = (late - early for early, late in zip(before, after, strict=True))
        count = run_count * steps
        return Cost(client_s * 1000 / count, postgres_s * 1000 / count, wal_bytes / count)

    async def _run(self, contender: str, node: Steps, start: State) -> None:
        run_id = str(uuid.uuid4())
        config = {"configurable": {"thread_id": run_id}, "recursion_limit": 1000}
        graph = node.compile(await self._saver(contender, run_id))
        state = await graph.ainvoke(start, config, **({} if contender == BARE else {"durability": "sync"}))
        if state["left"]:
            raise RuntimeError(f"a run stopped early: {state['left']} steps are left")

    async def _saver(self, contender: str, run_id: str) -> Saver:
        if contender == BARE:
            return None
        if contender == STOCK:
            return AsyncPostgresSaver(self.stock)
        async with self.ours.connection() as connection:
            await connection.execute(CLAIMED_RUN, {"run_id": run_id})
        return RunSaver(self.ours, make_serde(), claim=Claim(run_id, 1, run_id, fresh=True))

    def _read(self) -> tuple[float, float, float]:
        """Client CPU and Postgres CPU in seconds, and bytes of write-ahead log, so far."""
        row = self.observer.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone() or (0,)
        return time.process_time(), self.postgres.total_s(), float(row[0])


Costs = dict[tuple[str, str, int], list[Cost]]


async def measure() -> Costs:
    """Measures everything ROUNDS times, the contenders taking turns."""
    costs: Costs = {}
    options = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
    with EmbeddedPostgres(settings=SETTINGS) as postgres, psycopg.connect(postgres.dsn(), autocommit=True) as observer:
        observer.execute(f"CREATE DATABASE {STOCK}")
        prepare(postgres.dsn(STOCK))
        migrate(postgres.dsn())
        async with (
            open_pool(postgres.dsn(), size=POOL_SIZE) as ours,
            AsyncConnectionPool(postgres.dsn(STOCK), min_size=2, max_size=POOL_SIZE, kwargs=options) as stock,
        ):
            bench = Bench(ours, stock, observer, CpuMeter([postgres.pid]))
            for number in range(1 + ROUNDS):
                for channel, size in itertools.product(CHANNELS, SIZES if number else SIZES[:1]):
                    for contender in (OURS, STOCK, BARE):
                        cost = await bench.batch(contender, channel, size)
                        if number:  # the first round warms up
                            costs.setdefault((contender, channel, size), []).append(cost)
    return costs


def median(costs: Costs, contender: str, channel: str, size: int, measured: str) -> float:
    """The median of what was measured."""
    return statistics.median([float(getattr(cost, measured)) for cost in costs[contender, channel, size]])


def growth(costs: Costs, contender: str, channel: str, size: int, measured: str) -> float:
    """How many times the cost at the smallest size a step costs: the median of what the rounds say."""
    pairs = zip(costs[contender, channel, size], costs[contender, channel, SIZES[0]], strict=True)
    return statistics.median([float(getattr(cost, measured) / getattr(least, measured)) for cost, least in pairs])


def main() -> None:
    """Measures and prints a table for each channel."""
    configure_logs("bench", "ERROR")
    costs = asyncio.run(measure())
    for channel in CHANNELS:
        table = Table(title=f"a step that adds to `{channel}` (in brackets: times the cost at {SIZES[0]})")
        for heading in ("items", "WAL bytes", "stock", "CPU ms", "stock", "no saver"):
            table.add_column(heading, justify="right")
        for size in SIZES:
            cells = [
                f"{format(median(costs, contender, channel, size, measured), form)} "
                f"({growth(costs, contender, channel, size, measured):.2f})"
                for measured, form in (("wal_bytes", ",.0f"), ("cpu_ms", ".2f"))
                for contender in (OURS, STOCK)
            ]
            table.add_row(f"{size:,}", *cells, f"{median(costs, BARE, channel, size, 'client_ms'):.2f}")
        Console(file=sys.stdout, width=110).print(table)


if __name__ == "__main__":
    main()
