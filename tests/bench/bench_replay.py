"""A ledger of a million decisions under other limits: by the database, and decision by decision in Python.

Times are of the whole replay, from the question to every divergence in hand. Where all limits are as they were nothing
leads elsewhere; where one is low every run does.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from services.kit.telemetry.logs import configure_logs
from services.local.postgres import EmbeddedPostgres
from services.runtime.agents.registry import agent_graphs
from services.runtime.commands.migrate import migrate
from services.runtime.engine.database import open_pool
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.routing.redeciding import Replay, with_limits
from services.runtime.routing.table import Router

RUNS, DECISIONS_PER_RUN = 100_000, 10
ROUTER = "sast_triage.route_agent_decision"
CHANGES: tuple[Mapping[str, str], ...] = ({}, {"max_iterations": "10"}, {"max_iterations": "3"})
SETTINGS = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB", "synchronous_commit": "off"}
_FILL = """
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules,
        grounds, facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided_at)
    SELECT platform.first_run_id(made.at + n * interval '1 ms'), s, 'd' || n || '-' || s, 'sast_triage', %(router)s,
        'tool_call', 'fetch_code', %(rejected)s::jsonb, '{"tool": "fetch_code"}',
        jsonb_build_object('iteration_count', s, 'duplicate_call', false, 'error_attempts', n %% 3, 'budget_spent', '',
            'tool', 'fetch_code', 'tool_count', 1, 'unanalysed_fragments', s),
        'v1', 'c', 't', 's', 'agent', 1.0, '[]', made.at + n * interval '1 ms'
    FROM generate_series(1, %(runs)s) AS n, generate_series(1, %(each)s) AS s,
        (SELECT now() - interval '1 day' AS at) AS made
"""
_REJECTED = """[
    {"rule": "max_iterations", "grounds": {"iteration_count": 3, "max_iterations": 15}},
    {"rule": "duplicate_call", "grounds": {"duplicate_call": false}},
    {"rule": "error_recovery_limit", "grounds": {"error_attempts": 0, "max_error_attempts": 3}},
    {"rule": "budget_exhausted", "grounds": {"budget_spent": ""}}]"""


async def in_database(ledger: Ledger, router: Router[Any, Any], limits: Mapping[str, str]) -> tuple[int, float]:
    """Returns how many runs lead elsewhere, and the seconds that took."""
    began = time.perf_counter()
    replay = LedgerReplay(ledger, router, with_limits(router.policy, limits))
    found = [each async for each in replay.divergences(None)]
    took = time.perf_counter() - began
    if (replay.decision_count, replay.skipped_count) != (RUNS * DECISIONS_PER_RUN, 0):
        raise AssertionError(f"{replay.decision_count} decisions, {replay.skipped_count} skipped")
    return len(found), took


async def in_python(ledger: Ledger, router: Router[Any, Any], limits: Mapping[str, str]) -> tuple[int, float]:
    """Returns the same of a replay that reads every decision."""
    began = time.perf_counter()
    replay, found = Replay(router, with_limits(router.policy, limits)), 0
    async with ledger.decisions_of(router.name, None) as decisions:
        async for stored in decisions:
            found += replay.decide(stored) is not None
    return found, time.perf_counter() - began


async def measure(console: Console) -> None:
    """Measures, and prints seconds."""
    [router] = [each for graph in agent_graphs() for each in graph.routers if each.name == ROUTER]
    table = Table(title=f"{RUNS * DECISIONS_PER_RUN:,} decisions of {RUNS:,} runs, {ROUTER}")
    for heading in ("limits", "runs that lead elsewhere", "s in the database", "s in Python"):
        table.add_column(heading, justify="right" if "s " in heading else "left")
    with EmbeddedPostgres(settings=SETTINGS) as postgres:
        migrate(postgres.dsn())
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            given = {"router": ROUTER, "rejected": _REJECTED, "runs": RUNS, "each": DECISIONS_PER_RUN}
            connection.execute(_FILL, given)
            connection.execute("VACUUM ANALYZE platform.decisions")
        async with open_pool(postgres.dsn(), size=2) as pool:
            for limits in CHANGES:
                runs, seconds = await in_database(Ledger(pool), router, limits)
                same, others = await in_python(Ledger(pool), router, limits)
                if runs != same:
                    raise AssertionError(f"the database finds {runs} runs, Python {same}")
                changed = ", ".join(f"{name} {value}" for name, value in limits.items()) or "as they were"
                table.add_row(changed, f"{runs:,}", f"{seconds:.1f}", f"{others:.1f}")
    console.print(table)


def main() -> None:
    """Measures, and prints."""
    configure_logs("bench", "ERROR")
    asyncio.run(measure(Console(file=sys.stdout, width=100)))


if __name__ == "__main__":
    main()
