"""Runs are counted by time, agent, state and outcome: the caller's own, or all for operators, so many at most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import pytest
from psycopg.rows import dict_row
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.run_counts import RunCounts
from services.runtime.engine.search import NEWEST, statement
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import Replica, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica

RUNS = 120
NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
OPERATOR = ("operator", "operator")
# A run every ten minutes; one of six is still asked about, one waits to be claimed, the others have ended.
FILL = """
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, outcome, input,
        budget, model_calls, tool_calls, input_tokens, output_tokens, created_at, started_at, ended_at)
    SELECT (lpad(to_hex(n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid,
        CASE WHEN n %% 2 = 0 THEN 'counting' ELSE 'other' END, 'v', 'caller ' || n %% 3, '{}', '',
        CASE n %% 6 WHEN 0 THEN 'AWAITING_INPUT' WHEN 1 THEN 'PENDING' WHEN 2 THEN 'FAILED' ELSE 'SUCCEEDED' END,
        CASE n %% 6 WHEN 0 THEN '' WHEN 1 THEN '' WHEN 2 THEN 'unfinished' WHEN 3 THEN 'of tomorrow' ELSE 'done' END,
        '',
        '{"model_calls": 1, "tool_calls": 1, "tokens": 1, "wall_time_s": 1}', n, 1, 10 * n, n, at,
        CASE WHEN n %% 6 <> 1 THEN at + n * interval '1 second' END,
        CASE WHEN n %% 6 > 1 THEN at + 2 * n * interval '1 second' END
    FROM generate_series(1, %(runs)s) AS n,
        LATERAL (SELECT %(now)s::timestamptz - n * interval '10 minutes') AS made (at)
"""


@pytest.fixture
async def filled(platform_pool: PlatformPool) -> list[dict[str, Any]]:
    """All runs, the newest first."""
    async with platform_pool.connection() as connection:
        await connection.execute(FILL.encode(), {"now": NOW, "runs": RUNS})
        await connection.execute("ANALYZE")
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute("SELECT * FROM platform.runs ORDER BY created_at DESC")
        return await cursor.fetchall()


@pytest.fixture
async def stub(
    start_replica: StartReplica, filled: list[dict[str, Any]]
) -> AsyncIterator[runs_pb2_grpc.RunServiceAsyncStub]:
    assert len(filled) == RUNS
    replica: Replica = await start_replica()

    def make(callers: Callers) -> Registration:
        directory = replica.directory({"counting": replica.agent})
        servicer = RunServicer(replica.engine, replica.store, replica.pool, directory, callers, replica.pins)
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    async with serving(make) as channel:
        yield runs_pb2_grpc.RunServiceStub(channel)


def request(since: datetime, minutes: int = 60, agent: str = "") -> runs_pb2.CountRunsRequest:
    wanted = runs_pb2.CountRunsRequest(interval_minutes=minutes, agent=agent)
    wanted.since_time.FromDatetime(since)
    return wanted


@pytest.mark.parametrize("who", [OPERATOR, ("caller 1",), ("nobody",)], ids=" as ".join)
@pytest.mark.parametrize("agent", ["", "counting"])
async def test_what_is_counted_are_the_callers_own_runs_of_that_time(
    stub: runs_pb2_grpc.RunServiceAsyncStub, filled: list[dict[str, Any]], who: tuple[str, ...], agent: str
) -> None:
    since = NOW - timedelta(hours=9, minutes=5)
    answer = await stub.CountRuns(request(since, agent=agent), metadata=gateway_word(*who))
    mine = [
        row
        for row in filled
        if row["created_at"] >= since and who in (OPERATOR, (row["subject"],)) and agent in ("", row["agent"])
    ]
    hours: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
    for row in mine:
        hours[row["created_at"].replace(minute=0)].append(row)
    assert [each.begin_time.ToDatetime(tzinfo=UTC) for each in answer.intervals] == sorted(hours, reverse=True)
    for each in answer.intervals:
        rows = hours[each.begin_time.ToDatetime(tzinfo=UTC)]
        took = [(row["ended_at"] - row["created_at"]).total_seconds() for row in rows if row["ended_at"]]
        waited = [(row["started_at"] - row["created_at"]).total_seconds() for row in rows if row["started_at"]]
        assert (each.count, each.agent, each.state, each.outcome) == (len(rows), "", 0, 0)
        for quantiles, times, given in (
            (each.duration, took, each.HasField("duration")),
            (each.wait, waited, each.HasField("wait")),
        ):
            assert given == bool(times)
            if times:
                assert quantiles.median_s == pytest.approx(median(times))
                assert median(times) <= quantiles.p95_s <= max(times)
        spent = (each.model_calls, each.tool_calls, each.token_usage.input_tokens, each.token_usage.output_tokens)
        fields = ("model_calls", "tool_calls", "input_tokens", "output_tokens")
        assert spent == tuple(sum(row[name] for row in rows) for name in fields)
    words = {"unfinished": Outcome.UNFINISHED.proto, "done": Outcome.DONE.proto}
    assert {
        (
            each.begin_time.ToDatetime(tzinfo=UTC),
            each.agent,
            runs_pb2.RunState.Name(each.state),
            each.outcome,
        ): each.count
        for each in answer.counts
    } == Counter(
        (at, row["agent"], f"RUN_STATE_{row['state']}", words.get(row["outcome"], 0))
        for at, rows in hours.items()
        for row in rows
    )
    assert (answer.run_count, answer.is_partial) == (len(mine), False)


async def test_an_agent_that_there_is_not_is_said(stub: runs_pb2_grpc.RunServiceAsyncStub) -> None:
    refused = await refusal(stub.CountRuns(request(NOW, agent="counted"), metadata=gateway_word("caller 1")))
    assert [each.field for each in refused.violations] == ["agent"]


async def test_the_newest_are_looked_at_and_that_is_said(
    platform_pool: PlatformPool, filled: list[dict[str, Any]]
) -> None:
    counts = RunCounts(platform_pool, counted=20)
    for caller, subject in ((Caller("o", frozenset({"operator"})), None), (Caller("caller 1"), "caller 1")):
        counted = await counts.count(caller, NOW - timedelta(days=30), timedelta(days=1), None)
        newest = [row for row in filled if subject in (None, row["subject"])][:20]
        assert counted.is_partial
        assert sum(row["count"] for row in counted.intervals) == 20
        assert sum(row["input_tokens"] for row in counted.intervals) == sum(row["input_tokens"] for row in newest)


@pytest.mark.parametrize("source", ["runs_of_caller", "runs_of_agent", "runs_by_time"])
@pytest.mark.parametrize("name", ["count_runs", "count_model_tokens"])
async def test_no_count_reads_every_run_there_is(platform_pool: PlatformPool, source: str, name: str) -> None:
    async with platform_pool.connection() as connection:
        await connection.execute(FILL.encode(), {"now": NOW, "runs": 20_000})
        await connection.execute("ANALYZE platform.runs")
        parameters = {
            "subject": "caller 1", "agent": "counting", "since": NOW - timedelta(hours=1), "until": NOW,
            "before_created": NOW, "before_run_id": NEWEST, "interval_s": 3600, "most": 1000, "most_models": 50,
        }  # fmt: skip
        explained = await connection.execute(
            b"EXPLAIN (FORMAT JSON) " + statement(name, source).as_bytes(connection), parameters
        )
        [(plan,)] = await explained.fetchall()
    scans = [each for each in nodes(plan[0]["Plan"]) if each.get("Relation Name") == "runs"]
    assert scans
    assert {each["Node Type"] for each in scans} <= {"Index Scan", "Index Only Scan"}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", []):
        yield from nodes(each)
