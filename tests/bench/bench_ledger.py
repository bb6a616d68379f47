"""Pages and counts of a ledger of a hundred thousand and of ten million decisions: what they cost must not grow.

Each time is the best of several calls on a warm cache, of both ledgers in turns, through the code that serves them.
The decisions lie in partitions of a week each. Filters that nothing fits are among them: a page of those looks at as
many decisions as it may. Of everything that is asked for, but of correlation ids, there are more in both ledgers than
a page or a count looks at.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool
from rich.console import Console
from rich.table import Table

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.agents.registry import built_in_limits
from services.runtime.api.agent_directory import AgentDirectory
from services.runtime.api.explanations import Explanations
from services.runtime.calls.prices import Prices
from services.runtime.commands.migrate import migrate
from services.runtime.engine.database import open_pool
from services.runtime.engine.offers import Offers
from services.runtime.engine.pins import Pins
from services.runtime.engine.search import DecisionFilter, DecisionSearch, Place

EACH = 10
SIZES = (100_000, 10_000_000)
WEEKS, BATCH, TRIES = 12, 100_000, 7
# A page or count of ten million may cost so many times that of a hundred thousand: an index is a level or two deeper.
MOST_GROWTH = 3.0
SETTINGS = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB", "synchronous_commit": "off"}
_PARTITION = """
    CREATE TABLE platform.decisions_bench_{week} PARTITION OF platform.decisions
    FOR VALUES FROM ('{first}') TO ('{behind}')
"""
_RUNS = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
        created_at)
    SELECT platform.first_run_id(at), 'data_chat', 'v', 'caller ' || CASE n %% 4 WHEN 1 THEN 7 ELSE n %% 40 END, '{}',
        'c' || n / 5, 'SUCCEEDED', '', '{"model_calls": 12, "tool_calls": 24, "tokens": 200000, "wall_time_s": 300}', at
    FROM generate_series(%(first)s::int, %(last)s::int) AS n,
        LATERAL (SELECT %(begin)s::timestamptz + n * %(step)s::interval AS at) AS made
"""
_DECISIONS = """
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules,
        grounds, facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided_at)
    SELECT platform.first_run_id(at), s, 'd' || n || '-' || s,
        CASE WHEN n %% 4 = 0 THEN 'sast_triage' ELSE 'data_chat' END,
        CASE WHEN n %% 4 = 0 THEN 'sast_triage.route_agent_decision'
            WHEN s %% 2 = 0 THEN 'data_chat.route_after_agent' ELSE 'data_chat.route_after_tools' END,
        CASE WHEN n %% 100 = 1 THEN 'budget_exhausted' ELSE 'tool_calls' END, 'tools', '[]', '{"tool_count": 1}',
        '{"tool_count": 1, "iteration_count": 2, "budget_spent": "", "have_text": false}', 'v', 'c', 't', 's', 'agent',
        12.5, '[]', at + s * interval '1 s'
    FROM generate_series(%(first)s::int, %(last)s::int) AS n, generate_series(1, %(each)s::int) AS s,
        LATERAL (SELECT %(begin)s::timestamptz + n * %(step)s::interval AS at) AS made
"""
NOW = datetime.now(UTC)
FILTERS: Mapping[str, DecisionFilter] = {
    "all": DecisionFilter(),
    "an agent's": DecisionFilter(agent="data_chat"),
    "a router's": DecisionFilter(router="data_chat.route_after_agent"),
    "a rule that fires seldom": DecisionFilter(router="data_chat.route_after_tools", rule="budget_exhausted"),
    "a rule that never fires": DecisionFilter(rule="never"),
    "a destination that nothing leads to": DecisionFilter(agent="data_chat", destination="nowhere"),
    "a caller's": DecisionFilter(subject="caller 7"),
    "a correlation id's": DecisionFilter(correlation_id="c3"),
    "of one day": DecisionFilter(since=NOW - timedelta(days=30), until=NOW - timedelta(days=29)),
}


def fill(dsn: str, decisions: int) -> None:
    """Fills a migrated database with so many decisions, over some weeks, partitioned as the pruner does it."""
    runs = decisions // EACH
    begin = NOW - timedelta(weeks=WEEKS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        _by_week(connection)
        step = timedelta(weeks=WEEKS) / (runs + 1)
        for first in range(1, runs + 1, BATCH):
            last = min(first + BATCH - 1, runs)
            part = {"begin": begin, "step": step, "first": first, "last": last, "each": EACH}
            connection.execute(_RUNS.encode(), part)
            connection.execute(_DECISIONS.encode(), part)
        connection.execute("VACUUM ANALYZE platform.runs")
        connection.execute("VACUUM ANALYZE platform.decisions")


def _by_week(connection: psycopg.Connection) -> None:
    """Cuts the ledger into weeks, in the place of the first partition, which has all of the past."""
    connection.execute("DROP TABLE platform.decisions_first")
    monday = (NOW - timedelta(days=NOW.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    for week in range(WEEKS + 1):
        first = monday - timedelta(weeks=week)
        bounds = [
            connection.execute("SELECT platform.first_run_id(%s)::text", [at]).fetchone()
            for at in (first, first + timedelta(weeks=1))
        ]
        [first_id], [behind_id] = (bound for bound in bounds if bound)
        connection.execute(_PARTITION.format(week=week, first=first_id, behind=behind_id).encode())


Call = Callable[[], Awaitable[float]]


def calls(pool: AsyncConnectionPool[Any]) -> dict[str, Call]:
    """Returns what is asked of a ledger: each call says how many milliseconds it took."""
    search, explanations = (
        DecisionSearch(pool),
        Explanations(pool, AgentDirectory({}, Offers(pool)), Pins(pool, built_in_limits()), Prices()),
    )
    counted = {"an agent's": DecisionFilter(agent="data_chat")}
    counted["a caller's"] = replace(counted["an agent's"], subject=FILTERS["a caller's"].subject)
    return {
        **{f"page: {name}": partial(_page, search, wanted) for name, wanted in FILTERS.items()},
        **{f"counts: {name}": partial(_count, search, wanted) for name, wanted in counted.items()},
        "page: what explains a run": partial(_explain, explanations, search),
    }


async def costs(small: str, large: str) -> dict[str, tuple[float, float]]:
    """Returns milliseconds in both ledgers by what was asked, each the best of calls that take turns."""
    async with open_pool(small, size=2) as of_small, open_pool(large, size=2) as of_large:
        asked_of_large = calls(of_large)
        return {name: await _least(in_small, asked_of_large[name]) for name, in_small in calls(of_small).items()}


async def _least(in_small: Call, in_large: Call) -> tuple[float, float]:
    pairs = [(await in_small(), await in_large()) for _ in range(TRIES)]
    return min(small for small, _ in pairs), min(large for _, large in pairs)


async def _explain(explanations: Explanations, search: DecisionSearch) -> float:
    """Reads all that a run is explained by; to put it into words costs the same in any ledger."""
    [newest] = (await search.page(DecisionFilter(subject="caller 7"), Place(), 1)).rows
    began = time.perf_counter()
    rows, _, story = await explanations.of(str(newest["run_id"]), Caller("caller 7"), after=0, limit=100)
    elapsed = (time.perf_counter() - began) * 1000
    assert story is not None
    assert len(rows) == EACH
    return elapsed


async def _page(search: DecisionSearch, wanted: DecisionFilter) -> float:
    began = time.perf_counter()
    await search.page(wanted, Place(), 100)
    return (time.perf_counter() - began) * 1000


async def _count(search: DecisionSearch, wanted: DecisionFilter) -> float:
    began = time.perf_counter()
    await search.count(wanted, timedelta(hours=24))
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Prints what pages cost at both sizes. Raises AssertionError when one of them grew with the ledger."""
    configure_logs("bench", "ERROR")
    with EmbeddedPostgres(settings=SETTINGS) as server:
        dsns = [_filled(server, size) for size in SIZES]
        found = asyncio.run(costs(*dsns))
    table = Table("asked", *(f"{size:,} decisions" for size in SIZES), "ratio")
    for name, (small, large) in found.items():
        table.add_row(name, f"{small:.1f} ms", f"{large:.1f} ms", f"{large / small:.1f}")
    Console(file=sys.stdout, width=100).print(table)
    if grew := [name for name, (small, large) in found.items() if large > MOST_GROWTH * small + 5]:
        raise AssertionError(f"these cost more the longer the ledger is: {', '.join(grew)}")


def _filled(server: EmbeddedPostgres, size: int) -> str:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE ledger_{size}".encode())
    dsn = server.dsn(f"ledger_{size}")
    migrate(dsn)
    fill(dsn, size)
    return dsn


if __name__ == "__main__":
    main()
