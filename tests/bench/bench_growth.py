"""What the statements that replicas make all day cost on full tables, against empty ones.

Databases of one cluster: one with only the page that a listing shows, one with a million runs that wait (half for a
replica, half for a person) and ten million decisions, and one where a tenth as many were begun by a graph that this
replica can't carry on, and wait at the head of every queue. Each operation is timed on all by turns; ratios are those
of medians.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
from langgraph.checkpoint.base import ChannelVersions, empty_checkpoint
from rich.console import Console
from rich.table import Table

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import configure_logs
from services.kit.telemetry.names import ROLE_OPERATOR
from services.local.postgres import EmbeddedPostgres
from services.runtime.commands.migrate import migrate
from services.runtime.engine.carrier import Claimable
from services.runtime.engine.claim import Claim
from services.runtime.engine.database import PlatformPool, open_pools
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.liveness import LivenessLock
from services.runtime.engine.records import Ending, NewRun, RunRecord, RunState
from services.runtime.engine.run_search import RunFilter, RunSearch
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.engine.upkeep import Upkeep
from services.runtime.routing.recorder import DecisionRecord, StepRecord
from services.runtime.routing.state import Budget
from tests.bench.curves import draw
from tests.bench.machine import machine
from tests.fixtures.replica import counting_pins

EMPTY, FULL, FOREIGN = "empty", "filled", "not_carried"
WAITING_RUNS, DECISIONS_PER_RUN, CALLERS, LISTED = 1_000_000, 10, 1_000, 100
# What is drawn: databases with fewer runs, beside the full one.
STORED = (1_000, 10_000, 100_000)
ROUNDS = 300
AGENT, VERSION, ROUTER = "bench", "1", "bench.route_after_step"
SETTINGS = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB", "synchronous_commit": "off"}
OPERATOR = Caller("operator", frozenset({ROLE_OPERATOR}))
_FILL_RUNS = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
        created_at, input_request, expires_at, epoch)
    SELECT platform.first_run_id(made.at + n * interval '1 ms'), %(agent)s, %(version)s,
        'caller ' || n %% %(callers)s, '{}', 'c',
        CASE WHEN n %% 2 = 0 AND %(pending)s THEN 'PENDING' ELSE 'AWAITING_INPUT' END, 'question', '{}',
        made.at + n * interval '1 ms',
        CASE n %% 2 WHEN 1 THEN jsonb_build_object('input_request_id', n, 'question', 'Which?', 'options', '[]'::jsonb,
            'expires_at', now() + interval '1 day') END, now() + interval '1 day', %(epoch)s
    FROM generate_series(1, %(runs)s) AS n, (SELECT now() - interval '1 day' AS at) AS made
"""
_FILL_DECISIONS = """
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules,
        grounds, facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided_at)
    SELECT platform.first_run_id(made.at + n * interval '1 ms'), s, 'd' || n || '-' || s, %(agent)s, %(router)s,
        'continue', 'step', '[]', '{"iteration_count": 1, "max_iterations": 15}', '{"iteration_count": 1}', 'v1',
        'c', 't', 's', 'step', 1.0, '[]', made.at + n * interval '1 ms'
    FROM generate_series(1, %(runs)s) AS n, generate_series(1, %(each)s) AS s,
        (SELECT now() - interval '1 day' AS at) AS made
"""


@dataclass
class Side:
    """One of the databases, as a replica uses it."""

    pool: PlatformPool
    store: RunStore
    upkeep: Upkeep
    saver: RunSaver
    executing: list[RunRecord]
    config: dict[str, Any]

    async def claim(self) -> Callable[[], Awaitable[object]]:
        """Claims a run; beforehand there is at least one."""
        await self.store.create(new_run(), claim=False)

        async def claim() -> None:
            [run] = await self.upkeep.claim_pending(1, Claimable({AGENT: VERSION}))
            self.claimed = run

        return claim

    async def sweep(self) -> Callable[[], Awaitable[object]]:
        """Looks for orphans, overdue questions and runs to cancel."""

        async def sweep() -> None:
            await self.upkeep.take_over()
            await self.upkeep.owned(self.executing)
            await self.upkeep.expire_questions()
            await self.upkeep.give_up()

        return sweep

    async def step(self) -> Callable[[], Awaitable[object]]:
        """Writes a step with its decision."""
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"steps": [step_record()]}
        version: ChannelVersions = {"steps": self.saver.get_next_version(None, None)}
        return lambda: self.saver.aput(cast(Any, self.config), checkpoint, {}, version)

    async def list_all(self) -> Callable[[], Awaitable[object]]:
        """Lists the newest runs of everybody."""
        return lambda: RunSearch(self.pool).page(OPERATOR, RunFilter(), limit=LISTED // 2)

    async def list_own(self) -> Callable[[], Awaitable[object]]:
        """Lists the newest runs of a caller."""
        return lambda: RunSearch(self.pool).page(Caller("caller 0", frozenset()), RunFilter(), limit=LISTED // 2)

    async def replay_page(self) -> Callable[[], Awaitable[object]]:
        """Reads the first decisions of a router."""

        async def read() -> None:
            async with Ledger(self.pool).decisions_of(ROUTER, None) as decisions:
                async for _ in decisions:
                    return

        return read

    async def finish(self) -> None:
        """Ends what was claimed, so that tables stay as full as they were."""
        run: RunRecord | None = getattr(self, "claimed", None)
        if run:
            await self.store.end(run, Ending(RunState.SUCCEEDED))
            del self.claimed


OPERATIONS: dict[str, Callable[[Side], Awaitable[Callable[[], Awaitable[object]]]]] = {
    "claim": Side.claim,
    "sweep": Side.sweep,
    "step": Side.step,
    "list, operator": Side.list_all,
    "list, caller": Side.list_own,
    "replay, first page": Side.replay_page,
}


def new_run() -> NewRun:
    """A run of one of the callers."""
    number = time.monotonic_ns() % CALLERS
    budget = Budget(model_calls=1, tool_calls=1, tokens=1, wall_time_s=1.0)
    return NewRun(AGENT, VERSION, Caller(f"caller {number}", frozenset()), b"question", budget, "c")


def step_record() -> StepRecord:
    """A node that ran and led to a decision."""
    texts = ("decision_id", "rule", "destination", "policy_version", "trace_id", "span_id")
    decision = {**dict.fromkeys(texts, "x"), "router": ROUTER, "rejected_rules": [], "grounds": {}, "facts": {}}
    return StepRecord(node="step", ended_at=0.0, elapsed_ms=0.0, calls=[], decision=cast(DecisionRecord, decision))


@asynccontextmanager
async def side(dsn: str, name: str) -> AsyncIterator[Side]:
    """Opens one database as a replica that executes one run."""
    async with LivenessLock(dsn, name).held(), open_pools(dsn, size=8) as pools:
        pool = pools.steps
        pins = counting_pins(pool)
        store = RunStore(pools, pins, owner=name, lease_s=3600)
        upkeep = Upkeep(pools, pins, owner=name, lease_s=3600)
        run, _ = await store.create(new_run(), claim=True)
        saver = RunSaver(pool, make_serde(), claim=Claim(run.run_id, run.epoch, run.claim_id, fresh=True))
        yield Side(pool, store, upkeep, saver, [run], {"configurable": {"thread_id": run.run_id, "checkpoint_ns": ""}})


def fill(dsn: str, *, runs: int, callers: int = CALLERS, pending: bool = True, version: str = VERSION) -> None:
    """Fills a database with runs that wait; those of another version have been begun."""
    given = {
        "agent": AGENT,
        "router": ROUTER,
        "runs": runs,
        "callers": callers,
        "each": DECISIONS_PER_RUN,
        "pending": pending,
        "version": version,
        "epoch": int(version != VERSION),
    }
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_FILL_RUNS, given)
        connection.execute(_FILL_DECISIONS, given)
        connection.execute("VACUUM ANALYZE")


def stored(runs: int) -> str:
    """The name of the database with so many runs."""
    return f"stored_{runs}"


def draw_curves(found: dict[str, dict[str, list[float]]]) -> None:
    """Draws what each operation takes, by how many runs are stored."""
    databases = {**{runs: stored(runs) for runs in STORED}, WAITING_RUNS: FULL}
    lines: dict[str, list[tuple[float, float]]] = {
        operation: [(runs, statistics.median(times[name])) for runs, name in databases.items()]
        for operation, times in found.items()
    }
    title = f"Stored runs, {DECISIONS_PER_RUN} decisions each, medians of {ROUNDS} ({machine()})"
    draw("stored_runs", title, across="stored runs", up="ms", lines=lines, by_tens=True)


async def measure() -> dict[str, dict[str, list[float]]]:
    """Returns milliseconds by operation and database."""
    names = (EMPTY, *map(stored, STORED), FULL, FOREIGN)
    found: dict[str, dict[str, list[float]]] = {name: {each: [] for each in names} for name in OPERATIONS}
    with EmbeddedPostgres(settings=SETTINGS) as postgres:
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            for name in names:
                connection.execute(f"CREATE DATABASE {name}")
                migrate(postgres.dsn(name))
        # What is listed is as long on each side.
        fill(postgres.dsn(EMPTY), runs=LISTED, callers=1, pending=False)
        for runs in STORED:
            fill(postgres.dsn(stored(runs)), runs=runs)
        fill(postgres.dsn(FULL), runs=WAITING_RUNS)
        fill(postgres.dsn(FOREIGN), runs=WAITING_RUNS // 10, version="another")
        async with AsyncExitStack() as stack:
            sides = {name: await stack.enter_async_context(side(postgres.dsn(name), name)) for name in names}
            for number in range(ROUNDS + 20):
                for operation, prepare in OPERATIONS.items():
                    for name, where in sides.items():
                        work = await prepare(where)
                        start = time.perf_counter()
                        await work()
                        if number >= 20:  # the first warm up
                            found[operation][name].append((time.perf_counter() - start) * 1000)
                        await where.finish()
    return found


def main() -> None:
    """Measures, and prints the ratios."""
    configure_logs("bench", "ERROR")
    began = datetime.now(UTC)
    found = asyncio.run(measure())
    draw_curves(found)
    table = Table(
        title=f"{WAITING_RUNS:,} waiting runs, {WAITING_RUNS * DECISIONS_PER_RUN:,} decisions (medians of {ROUNDS})"
    )
    for heading in ("", "ms empty", "ms full", "ratio", "ms not carried", "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    for operation, times in found.items():
        empty, full, foreign = (statistics.median(times[name]) for name in (EMPTY, FULL, FOREIGN))
        table.add_row(
            operation, f"{empty:.2f}", f"{full:.2f}", f"{full / empty:.2f}", f"{foreign:.2f}", f"{foreign / empty:.2f}"
        )
    console = Console(file=sys.stdout, width=100)
    console.print(table)
    console.print(machine(), highlight=False)
    console.print(f"took {(datetime.now(UTC) - began).total_seconds():.0f} s")


if __name__ == "__main__":
    main()
