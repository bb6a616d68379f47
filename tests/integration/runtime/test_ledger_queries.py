"""The ledger as a source of answers: by any filter, page by page, for those who may see it, however long it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.search import DecisionFilter, DecisionSearch, Place, statement
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import Replica, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica

RUNS, EACH, LOOKED_AT = 400, 6, 50
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
# A run every hour, so over several weeks' partitions; a decision of it every half an hour, so that runs overlap.
FILL = """
    WITH made AS (
        SELECT n, %(now)s::timestamptz - n * interval '1 hour' AS at FROM generate_series(1, %(runs)s) AS n
    ), runs AS (
        INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
            created_at, started_at, ended_at)
        SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
                || '70008' || lpad(to_hex(n), 15, '0'))::uuid,
            'counting', 'v', 'caller ' || n %% 5, '{}', 'order-' || n / 10, 'SUCCEEDED', '',
            '{"model_calls": 1, "tool_calls": 1, "tokens": 1, "wall_time_s": 1}', at, at, at
        FROM made
        RETURNING run_id, created_at, correlation_id
    )
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules,
        grounds, facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided_at)
    SELECT run_id, s, run_id || '/' || s, CASE WHEN s = 6 THEN 'other' ELSE 'counting' END,
        CASE s WHEN 6 THEN 'other.route' WHEN 5 THEN 'counting.route_after_gone' ELSE 'counting.route_after_count' END,
        CASE WHEN s = 4 THEN 'done' ELSE 'go_on' END, CASE WHEN s = 4 THEN 'report' ELSE 'count' END, '[]', '{}', '{}',
        'v', 'c', '', '', 'count', 1, '[]', created_at + s * interval '30 minutes'
    FROM runs, generate_series(1, %(each)s) AS s
    -- One run in ten has decided nothing.
    WHERE right(run_id::text, 1) <> 'a'
"""
ALL = """
    SELECT d.run_id, d.sequence, d.agent, d.router, d.rule, d.destination, d.decided_at, r.subject, r.correlation_id
    FROM platform.decisions AS d JOIN platform.runs AS r USING (run_id) ORDER BY d.run_id DESC, d.sequence DESC
"""
FILTERS = [
    DecisionFilter(),
    DecisionFilter(agent="counting"),
    DecisionFilter(agent="other", rule="go_on"),
    DecisionFilter(router="counting.route_after_gone"),
    DecisionFilter(router="counting.route_after_count", rule="done", destination="report"),
    DecisionFilter(rule="done"),
    DecisionFilter(destination="report", subject="caller 3"),
    DecisionFilter(rule="never"),
    DecisionFilter(subject="caller 1"),
    DecisionFilter(subject="nobody"),
    DecisionFilter(correlation_id="order-7"),
    DecisionFilter(correlation_id="order-7", subject="caller 2", agent="counting"),
    DecisionFilter(since=NOW - timedelta(hours=20)),
    DecisionFilter(until=NOW - timedelta(hours=300)),
    DecisionFilter(router="other.route", since=NOW - timedelta(hours=200), until=NOW - timedelta(hours=100)),
    DecisionFilter(subject="caller 0", since=NOW - timedelta(hours=200), until=NOW - timedelta(hours=100)),
]


@pytest.fixture
async def ledger(platform_pool: PlatformPool) -> list[dict[str, Any]]:
    """A filled ledger, in the order of its pages."""
    async with platform_pool.connection() as connection:
        await connection.execute(FILL.encode(), {"now": NOW, "runs": RUNS, "each": EACH})
        await connection.execute("ANALYZE")
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(ALL)
        return await cursor.fetchall()


def fits(row: Mapping[str, Any], wanted: DecisionFilter) -> bool:
    """Whether a decision fits a filter, said one by one."""
    same = ("agent", "router", "rule", "destination", "subject", "correlation_id")
    return (
        all(not getattr(wanted, name) or row[name] == getattr(wanted, name) for name in same)
        and (wanted.since is None or row["decided_at"] >= wanted.since)
        and (wanted.until is None or row["decided_at"] < wanted.until)
    )


async def pages(search: DecisionSearch, wanted: DecisionFilter, limit: int) -> AsyncIterator[list[dict[str, Any]]]:
    after: Place | None = Place()
    while after is not None:
        found = await search.page(wanted, after, limit)
        yield found.rows
        assert found.after is None or (found.after.run_id, found.after.sequence) < (after.run_id, after.sequence)
        after = found.after


async def test_every_filter_finds_what_fits_once_and_in_order(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]]
) -> None:
    search = DecisionSearch(platform_pool, looked_at=LOOKED_AT)
    assert len(ledger) > 2000
    for wanted in FILTERS:
        expected = [(row["run_id"], row["sequence"]) for row in ledger if fits(row, wanted)]
        for limit in (7, 1000):
            found = [(row["run_id"], row["sequence"]) async for page in pages(search, wanted, limit) for row in page]
            assert found == expected, f"{wanted}, {limit} a page"
    assert sum(bool([row for row in ledger if fits(row, wanted)]) for wanted in FILTERS) == len(FILTERS) - 2


def scans(plan: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every scan of a plan, and how many rows it read, those that it threw away too."""
    if "Scan" in plan["Node Type"] and "Relation Name" in plan:
        read = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        yield f"{plan['Node Type']} {plan['Relation Name']}", read * plan["Actual Loops"]
    for below in plan.get("Plans", ()):
        yield from scans(below)


async def rows_read(pool: PlatformPool, query: sql.Composed, parameters: Mapping[str, Any]) -> Counter[str]:
    """How many rows of each table a query reads, by the kind of scan."""
    async with pool.connection() as connection, connection.transaction():
        # So small a ledger is read whole; where that is forbidden, it is done only where there is no other way.
        await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        text = query.as_string(connection)
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF, FORMAT JSON) {text}".encode(), parameters
        )
        [(plan,)] = await cursor.fetchall()
    read = Counter[str]()
    for name, rows in scans(plan[0]["Plan"]):
        assert "Seq Scan" not in name or rows == 0, json.dumps(plan)
        read[name] += int(rows)
    return read


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
async def test_a_page_reads_no_more_than_it_looks_at(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]], wanted: DecisionFilter
) -> None:
    most = 20
    parameters = {**wanted.parameters(Place(), most), "limit": 10}
    read = await rows_read(platform_pool, statement("matching_decisions", wanted.source), parameters)
    # Some rows of each of three routers, of each partition, and the walk over the routers' names.
    assert sum(read.values()) <= 8 * most, read
    assert len(ledger) > 100 * most


@pytest.fixture
async def stub(
    start_replica: StartReplica, ledger: list[dict[str, Any]]
) -> AsyncIterator[runs_pb2_grpc.RunServiceAsyncStub]:
    """The service over the filled ledger."""
    assert ledger
    replica: Replica = await start_replica()

    def make(callers: Callers) -> Registration:
        agents = {"counting": replica.agent}
        servicer = RunServicer(
            replica.engine, replica.store, replica.pool, replica.directory(agents), callers, replica.pins
        )
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    async with serving(make) as channel:
        yield runs_pb2_grpc.RunServiceStub(channel)


async def listed(
    stub: runs_pb2_grpc.RunServiceAsyncStub, request: runs_pb2.ListDecisionsRequest, *who: str
) -> list[runs_pb2.Decision]:
    found: list[runs_pb2.Decision] = []
    while True:
        page = await stub.ListDecisions(request, metadata=gateway_word(*who))
        found += page.decisions
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_callers_see_their_own_and_operators_all(
    stub: runs_pb2_grpc.RunServiceAsyncStub, ledger: list[dict[str, Any]]
) -> None:
    own = [str(row["run_id"]) for row in ledger if row["subject"] == "caller 1"]
    request = runs_pb2.ListDecisionsRequest(page_size=1000)
    assert [each.run_id for each in await listed(stub, request, "caller 1")] == own
    request = runs_pb2.ListDecisionsRequest(subject="caller 1", page_size=1000)
    assert [each.run_id for each in await listed(stub, request, "operator", "operator")] == own
    request = runs_pb2.ListDecisionsRequest(subject="caller 1")
    assert await listed(stub, request, "caller 2") == []
    order = runs_pb2.ListDecisionsRequest(correlation_id="order-7")
    seen = {each.run_id for each in await listed(stub, order, "caller 1")}
    assert seen == {str(r["run_id"]) for r in ledger if r["subject"] == "caller 1" and r["correlation_id"] == "order-7"}
    everything = runs_pb2.ListDecisionsRequest(page_size=1000)
    assert len(await listed(stub, everything, "operator", "operator")) == len(ledger)


async def test_decisions_too_large_for_one_message_come_on_more_pages(
    stub: runs_pb2_grpc.RunServiceAsyncStub, ledger: list[dict[str, Any]], platform_pool: PlatformPool
) -> None:
    own = [row for row in ledger if row["subject"] == "caller 1"]
    async with platform_pool.connection() as connection:
        large = """UPDATE platform.decisions SET facts = jsonb_build_object('words', repeat('x', 900000))
            WHERE run_id = ANY (%s)"""
        await connection.execute(large, [list({row["run_id"] for row in own[:12]})])
    everything = runs_pb2.ListDecisionsRequest(page_size=1000)
    found = [(each.run_id, each.sequence) for each in await listed(stub, everything, "caller 1")]
    assert found == [(str(row["run_id"]), row["sequence"]) for row in own]
    of_run = runs_pb2.ListDecisionsRequest(run_id=str(own[0]["run_id"]), page_size=1000)
    assert [each.sequence for each in await listed(stub, of_run, "caller 1")] == list(range(1, EACH + 1))


async def test_rules_are_counted_and_those_that_never_fire_are_named(
    stub: runs_pb2_grpc.RunServiceAsyncStub, ledger: list[dict[str, Any]]
) -> None:
    request = runs_pb2.CountDecisionsRequest(agent="counting")
    answer = await stub.CountDecisions(request, metadata=gateway_word("operator", "operator"))
    of_agent = [row for row in ledger if row["agent"] == "counting"]
    expected = Counter((row["router"], row["rule"], row["destination"]) for row in of_agent)
    never = {("counting.route_after_count", rule, "report"): 0 for rule in ("max_counts", "budget_exhausted")}
    assert {(each.router, each.rule, each.destination): each.count for each in answer.counts} == {**expected, **never}
    assert (answer.decision_count, answer.is_partial) == (len(of_agent), False)

    request.interval_hours = 24
    own = await stub.CountDecisions(request, metadata=gateway_word("caller 1"))
    fired = [each for each in own.counts if each.count]
    expected_of_caller = len([row for row in of_agent if row["subject"] == "caller 1"])
    assert (sum(each.count for each in fired), own.decision_count) == (expected_of_caller, expected_of_caller)
    begins = [each.begin_time.ToDatetime(tzinfo=UTC) for each in fired]
    assert begins == sorted(begins, reverse=True)
    assert {begin.hour for begin in begins} == {0}
    for each in fired:
        lasted = each.last_time.ToDatetime(tzinfo=UTC) - each.begin_time.ToDatetime(tzinfo=UTC)
        assert timedelta() <= lasted < timedelta(days=1)


async def test_counts_look_at_the_newest_and_say_so(platform_pool: PlatformPool, ledger: list[dict[str, Any]]) -> None:
    wanted = DecisionFilter(agent="counting")
    counted = await DecisionSearch(platform_pool, counted=100).count(wanted, timedelta())
    newest = [row for row in ledger if row["agent"] == "counting"][:100]
    assert (counted.count, counted.is_partial) == (100, True)
    assert {(row["router"], row["rule"]): row["count"] for row in counted.rows} == dict(
        Counter((row["router"], row["rule"]) for row in newest)
    )
    none = await DecisionSearch(platform_pool).count(replace(wanted, subject="nobody"), timedelta())
    assert (none.rows, none.count, none.is_partial) == ([], 0, False)


@pytest.mark.parametrize("who", [("operator", "operator"), ("caller 1",)], ids=" as ".join)
async def test_what_is_counted_of_a_time_is_of_that_time(
    stub: runs_pb2_grpc.RunServiceAsyncStub, ledger: list[dict[str, Any]], who: Sequence[str]
) -> None:
    wanted = DecisionFilter(agent="counting", since=NOW - timedelta(hours=24), subject=None if len(who) > 1 else who[0])
    request = runs_pb2.CountDecisionsRequest(agent="counting", since_time=wanted.since)
    answer = await stub.CountDecisions(request, metadata=gateway_word(*who))
    expected = len([row for row in ledger if fits(row, wanted)])
    assert 0 < expected < len(ledger) // 10
    assert (sum(each.count for each in answer.counts), answer.decision_count) == (expected, expected)
    assert not answer.is_partial


@pytest.mark.parametrize("subject", [None, "caller 1"])
async def test_a_time_that_was_counted_whole_is_not_partial(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]], subject: str | None
) -> None:
    wanted = DecisionFilter(agent="counting", since=NOW - timedelta(hours=20), subject=subject)
    expected = len([row for row in ledger if fits(row, wanted)])
    everything = len([row for row in ledger if fits(row, replace(wanted, since=None))])
    assert 0 < expected < 150 < everything
    search = DecisionSearch(platform_pool, counted=150)
    counted = await search.count(wanted, timedelta())
    assert (counted.count, counted.is_partial) == (expected, False)
    every = await DecisionSearch(platform_pool, counted=len(ledger)).count(replace(wanted, since=None), timedelta())
    assert (every.count, every.is_partial) == (everything, False)


@pytest.mark.parametrize("subject", [None, "caller 1"])
@pytest.mark.parametrize("age_h", [201, 396], ids=["of the week before", "of before that"])
@pytest.mark.parametrize("has_ended", [True, False])
async def test_a_late_decision_of_an_old_run_makes_a_time_partial(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]], subject: str | None, age_h: int, *, has_ended: bool
) -> None:
    assert ledger
    wanted = DecisionFilter(agent="counting", since=NOW - timedelta(hours=20), subject=subject)
    late = NOW - timedelta(hours=3)
    async with platform_pool.connection() as connection:
        old = """SELECT run_id FROM platform.runs JOIN platform.decisions USING (run_id)
            WHERE subject = 'caller 1' AND created_at = %s LIMIT 1"""
        [old_id] = await (await connection.execute(old, [NOW - timedelta(hours=age_h)])).fetchone() or [None]
        # It is the run's last decision: those behind it are gone.
        await connection.execute("DELETE FROM platform.decisions WHERE run_id = %s AND sequence > 2", [old_id])
        of_run = "UPDATE platform.decisions SET decided_at = %s WHERE run_id = %s AND sequence = 2"
        await connection.execute(of_run, [late, old_id])
        ended = "UPDATE platform.runs SET ended_at = %s WHERE run_id = %s"
        await connection.execute(ended, [late if has_ended else None, old_id])
    partial = await DecisionSearch(platform_pool, counted=150).count(wanted, timedelta())
    whole = await DecisionSearch(platform_pool).count(wanted, timedelta())
    assert (partial.count, partial.is_partial) == (whole.count - 1, True)
    assert not whole.is_partial


@pytest.mark.parametrize("since", [None, NOW - timedelta(hours=399)], ids=["of all time", "of a time"])
async def test_where_nothing_fits_among_the_newest_older_ones_may(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]], since: datetime | None
) -> None:
    wanted = DecisionFilter(agent="counting", subject="caller 1", since=since)
    async with platform_pool.connection() as connection:
        newest = """UPDATE platform.decisions SET agent = 'other' WHERE run_id IN (
            SELECT run_id FROM platform.runs WHERE subject = 'caller 1' AND created_at > %s)"""
        await connection.execute(newest, [NOW - timedelta(hours=200)])
    none = await DecisionSearch(platform_pool, counted=100).count(wanted, timedelta())
    assert (none.rows, none.count, none.is_partial) == ([], 0, True)
    older = await DecisionSearch(platform_pool, counted=len(ledger)).count(wanted, timedelta())
    assert older.count > 100
    assert not older.is_partial


@pytest.mark.parametrize("subject", [None, "caller 1"])
async def test_a_count_reads_no_more_than_it_looks_at(
    platform_pool: PlatformPool, ledger: list[dict[str, Any]], subject: str | None
) -> None:
    most = 40
    wanted = DecisionFilter(agent="counting", since=NOW - timedelta(hours=5), subject=subject)
    parameters = {**wanted.parameters(Place(), most + 1), "counted": most, "interval_s": 0}
    read = await rows_read(platform_pool, statement("count_decisions", wanted.source, older=wanted.older), parameters)
    assert sum(read.values()) <= 8 * most, read
    assert len(ledger) > 50 * most


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (runs_pb2.ListDecisionsRequest(run_id="0199a0c0-0000-7000-8000-000000000000", rule="done"), "rule"),
        (runs_pb2.ListDecisionsRequest(agent="nobody"), "agent"),
        (runs_pb2.ListDecisionsRequest(page_token="bm8="), "page_token"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    stub: runs_pb2_grpc.RunServiceAsyncStub, request_: runs_pb2.ListDecisionsRequest, field: str
) -> None:
    refused = await refusal(stub.ListDecisions(request_, metadata=gateway_word("caller 1")))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert field in str(refused)


async def test_runs_are_listed_by_time_and_caller(stub: runs_pb2_grpc.RunServiceAsyncStub) -> None:
    async def found(request: runs_pb2.ListRunsRequest, *who: str) -> list[datetime]:
        listed = await stub.ListRuns(request, metadata=gateway_word(*who))
        return [run.create_time.ToDatetime(tzinfo=UTC) for run in listed.runs]

    request = runs_pb2.ListRunsRequest(page_size=500)
    request.since_time.FromDatetime(NOW - timedelta(hours=20))
    request.until_time.FromDatetime(NOW - timedelta(hours=10))
    hours = [NOW - timedelta(hours=number) for number in range(11, 21)]
    assert await found(request, "operator", "operator") == hours
    request.subject = "caller 3"
    assert await found(request, "operator", "operator") == [NOW - timedelta(hours=13), NOW - timedelta(hours=18)]
    assert await found(request, "caller 3") == [NOW - timedelta(hours=13), NOW - timedelta(hours=18)]
    assert await found(request, "caller 4") == []
    request.since_time.seconds = 10**15
    refused = await refusal(stub.ListRuns(request, metadata=gateway_word("caller 3")))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_first_days_of_the_calendar_are_times_as_others_are(stub: runs_pb2_grpc.RunServiceAsyncStub) -> None:
    auth, first = gateway_word("operator", "operator"), datetime.min.replace(tzinfo=UTC)
    listing, counting = runs_pb2.ListDecisionsRequest(), runs_pb2.CountDecisionsRequest(agent="data_chat")
    listed = await stub.ListDecisions(listing, metadata=auth)
    counted = await stub.CountDecisions(counting, metadata=auth)
    assert listed.decisions
    for request in (listing, counting):
        request.since_time.FromDatetime(first)
    assert await stub.ListDecisions(listing, metadata=auth) == listed
    assert await stub.CountDecisions(counting, metadata=auth) == counted
    listing.until_time.FromDatetime(first)
    assert not (await stub.ListDecisions(listing, metadata=auth)).decisions
