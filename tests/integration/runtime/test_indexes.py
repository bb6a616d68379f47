"""What every replica asks the database again and again must not read all the runs that there ever were."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import UUID

import pytest
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.queries import query

NOBODY = {
    "graphs": '{"counting": "version"}',
    "carried": "{}",
    "owner": "a replica",
    "pins": "[]",
    "executing": [],
    "lease_s": 15.0,
    "suspect_after": 3,
    "limit": 1,
    "after": "",
    "most_callers": 1000,
    "claim_id": "01a20103-ace7-7608-b83d-5de6f3809c8b",
    "run_ids": [],
    "claim_ids": [],
    "stop_reason": "",
    "most": 1000,
    "runtime": "runtime",
    "away_s": 45.0,
}
ELSEWHERE = {"graphs": '{"counting": "version"}', "after_created": "-infinity", "after_run_id": UUID(int=0), "limit": 1}
CLAIM = {"run_id": UUID(int=1), "epoch": 1, "claim_id": UUID(int=2)}
OF_AGENT = {"agent": "counting", "others": [], "limit": 1}
OLD = {"oldest_kept": "01a20103-ace7-7608-b83d-5de6f3809c8b", "decided_until": datetime(2026, 9, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("claim_runs", NOBODY),
        ("begun_elsewhere", ELSEWHERE),
        ("take_over", NOBODY),
        ("claim_suspect", NOBODY),
        ("give_up_runs", NOBODY),
        ("renew_run_leases", NOBODY),
        ("owned_runs", NOBODY),
        ("adopt_questions", NOBODY),
        ("expire_questions", {}),
        ("count_pending", NOBODY),
        ("waiting_runs", {}),
        (
            "runs_to_prune",
            {**OF_AGENT, "from_stages": [0], "age_s": 1.0, "next_age_s": 2.0, "is_read": True, "pool": ""},
        ),
        ("prune_decisions", {**OF_AGENT, **OLD}),
    ],
)
async def test_by_index(platform_pool: AsyncConnectionPool[Any], name: str, parameters: dict[str, Any]) -> None:
    async with platform_pool.connection() as connection, connection.transaction():
        # Small tables are read whole; where that is forbidden, it is done only where there is no other way.
        await connection.execute("SET LOCAL enable_seqscan = off")
        cursor = await connection.execute("EXPLAIN " + query(name), parameters)
        plan = "\n".join(line for (line,) in await cursor.fetchall())
    assert " on runs" in plan
    # Of agents there are a few.
    assert "Seq Scan" not in plan.replace("Seq Scan on agents", "")


def _statements_of_claims() -> list[str]:
    folder = files("services.runtime.engine") / "sql"
    return sorted(
        file.name.removesuffix(".sql") for file in folder.iterdir() if "{claim_holds.sql}" in file.read_text()
    )


@pytest.mark.parametrize("name", _statements_of_claims())
async def test_a_claimed_run_is_found_by_its_key_while_nothing_is_known_of_the_table(
    platform_pool: AsyncConnectionPool[Any], name: str
) -> None:
    async with platform_pool.connection() as connection:
        text = query(name)
        parameters = {**dict.fromkeys(re.findall(r"%\((\w+)\)", text)), **CLAIM}
        cursor = await connection.execute(f"EXPLAIN {text}".encode(), parameters)
        plan = "\n".join(line for (line,) in await cursor.fetchall())
    assert "Index Scan using runs_pkey on runs" in plan, plan
