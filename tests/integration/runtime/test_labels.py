"""Labels and titles of runs: kept with the run and gone with it, found by, however many runs there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.console.run_search import contains
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.run_search import Place, RunFilter, RunSearch
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import Fork, ThreadStore
from tests.fixtures.replica import Counting, gateway_word, serving
from tests.integration.runtime.conftest import OwnerStore, StartReplica, ended, new_run

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
OPERATOR = Caller("operator", frozenset({ROLE_OPERATOR}))
# What is asked for most, one in a thousand, two that never meet, and one that only the oldest runs have.
FILL = """
    WITH made AS (
        INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, correlation_id, state, input, budget,
            created_at, ended_at, labels)
        SELECT platform.first_run_id(%(now)s::timestamptz - n * interval '1 s'),
            'counting', 'v', 'caller ' || n %% 5, '{}', 'c',
            CASE WHEN n %% 7 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, '',
            '{"model_calls": 1, "tool_calls": 1, "tokens": 1, "wall_time_s": 1}',
            %(now)s::timestamptz - n * interval '1 s', %(now)s,
            jsonb_build_object('team', 'payments', 'half', (n %% 2)::text)
                || CASE WHEN n %% 1000 = 0 THEN '{"ticket": "T-1"}' ELSE '{}' END::jsonb
                || CASE WHEN n > %(runs)s - 30 THEN '{"old": ""}' ELSE '{}' END::jsonb
        FROM generate_series(1, %(runs)s) AS n
        RETURNING run_id, subject, created_at, labels
    )
    INSERT INTO platform.run_labels (run_id, label, subject, created_at)
    SELECT run_id, l.key || '=' || l.value, subject, created_at FROM made, jsonb_each_text(labels) AS l
"""


async def fill(pool: PlatformPool, runs: int) -> None:
    async with pool.connection() as connection:
        await connection.execute(FILL.encode(), {"now": NOW, "runs": runs})
        await connection.execute("ANALYZE platform.runs, platform.run_labels")


async def found(search: RunSearch, caller: Caller, wanted: RunFilter, limit: int) -> list[int]:
    """The numbers of the runs that fit, page by page."""
    runs: list[int] = []
    after: Place | None = None
    while True:
        page = await search.page(caller, wanted, limit=limit, after=after)
        runs += [round((NOW - run.created_at).total_seconds()) for run in page.runs]
        assert all(run.labels.items() >= wanted.labels.items() for run in page.runs)
        if page.after is None:
            return runs
        assert after is None or page.after < after
        after = page.after


async def test_all_labels_must_be_there(platform_pool: PlatformPool) -> None:
    await fill(platform_pool, 3000)
    search = RunSearch(platform_pool, looked_at=100)
    own = Caller("caller 3", frozenset())
    everything = range(1, 3001)
    cases: list[tuple[Caller, RunFilter, list[int]]] = [
        (OPERATOR, RunFilter(labels={"team": "payments"}), list(everything)),
        (own, RunFilter(labels={"team": "payments"}), [n for n in everything if n % 5 == 3]),
        (own, RunFilter(labels={"team": "payments"}, subject="caller 2"), []),
        (OPERATOR, RunFilter(labels={"half": "1"}, subject="caller 2"), [n for n in everything if n % 10 == 7]),
        (OPERATOR, RunFilter(labels={"half": "0", "ticket": "T-1"}), [1000, 2000, 3000]),
        (OPERATOR, RunFilter(labels={"half": "1", "ticket": "T-1"}), []),
        (OPERATOR, RunFilter(labels={"team": "payments", "old": ""}), list(range(2971, 3001))),
        (OPERATOR, RunFilter(labels={"team": "payment"}), []),
        (OPERATOR, RunFilter(labels={"team=payments": ""}), []),
        (
            OPERATOR,
            RunFilter(
                labels={"half": "0"},
                since=NOW - timedelta(seconds=500),
                until=NOW - timedelta(seconds=90),
                agent="counting",
                thread_id=None,
            ),
            list(range(92, 501, 2)),
        ),
    ]
    for caller, wanted, expected in cases:
        for limit in (7, 90):
            assert await found(search, caller, wanted, limit) == expected, wanted


@pytest.fixture
async def stub(start_replica: StartReplica) -> AsyncIterator[runs_pb2_grpc.RunServiceAsyncStub]:
    """The service of a replica that counts; the agent has the name of the input's field."""
    replica = await start_replica(Counting(), agent="data_chat")

    def make(callers: Callers) -> Registration:
        agents = {"data_chat": replica.agent}
        servicer = RunServicer(
            replica.engine, replica.store, replica.pool, replica.directory(agents), callers, replica.pins
        )
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    async with serving(make) as channel:
        yield runs_pb2_grpc.RunServiceStub(channel)


async def test_a_run_says_its_labels_and_is_found_by_them(stub: runs_pb2_grpc.RunServiceAsyncStub) -> None:
    who = gateway_word("27")

    async def create(labels: dict[str, str], request_id: str = "") -> runs_pb2.Run:
        asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="1"))
        request = runs_pb2.CreateRunRequest(input=asked, labels=labels, request_id=request_id)
        return (await stub.CreateRun(request, metadata=who)).run

    async def listed(**labels: str) -> list[str]:
        page = await stub.ListRuns(runs_pb2.ListRunsRequest(labels=labels), metadata=who)
        return [run.run_id for run in page.runs]

    first = await create({"team": "payments", "stage": ""}, "again")
    second = await create({"team": "payments", "stage": "live"})
    bare = await create({})
    assert (dict(first.labels), dict(bare.labels)) == ({"team": "payments", "stage": ""}, {})
    got = await stub.GetRun(runs_pb2.GetRunRequest(run_id=second.run_id), metadata=who)
    assert dict(got.run.labels) == {"team": "payments", "stage": "live"}
    assert await listed(team="payments") == [second.run_id, first.run_id]
    assert await listed(team="payments", stage="") == [first.run_id]
    assert await listed() == [bare.run_id, second.run_id, first.run_id]
    # A repeat of the request is the run that there is, as it was labelled.
    repeated = await create({"team": "other"}, "again")
    assert (repeated.run_id, dict(repeated.labels)) == (first.run_id, dict(first.labels))
    assert await listed(team="other") == []


async def test_a_run_is_found_by_words_of_its_title_and_labels(stub: runs_pb2_grpc.RunServiceAsyncStub) -> None:
    who, other = gateway_word("27"), gateway_word("28")

    async def create(question: str, **labels: str) -> str:
        asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
        request = runs_pb2.CreateRunRequest(input=asked, labels=labels)
        return (await stub.CreateRun(request, metadata=who)).run.run_id

    async def listed(metadata: tuple[tuple[str, str], ...] = who, **wanted: Any) -> list[str]:
        page = await stub.ListRuns(runs_pb2.ListRunsRequest(**wanted), metadata=metadata)
        return [run.run_id for run in page.runs]

    hot = await create("1\n  Which DEVICES in Ærø are hot? 冷蔵設備", team="payments")
    cold = await create("2 100% of devices_cold \\ are\x0b cold" + "!" * 1000)
    got = await stub.GetRun(runs_pb2.GetRunRequest(run_id=cold), metadata=who)
    assert (len(got.run.title), got.run.title[-1], got.run.title[:11]) == (200, "…", "2 100% of d")
    runs = (await stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=who)).runs
    page = await stub.ListRuns(runs_pb2.ListRunsRequest(text="hot"), metadata=who)
    assert [run.title for run in page.runs] == ["1 Which DEVICES in Ærø are hot? 冷蔵設備"]
    for text, found in (
        ("devices", [cold, hot]), ("devices hot", [hot]), ("ærø", [hot]), ("team=pay", [hot]),
        ("payments DEVICES", [hot]), ("設備", [hot]), ("備", [hot]),
        ("100%", [cold]), ("devices_c", [cold]), ("s_c", []), ("vices", []), ("\\", [cold]), ("device_", []),
        ("nothing", []), ("hot cold", []),
    ):  # fmt: skip
        assert await listed(text=text) == found, text
        # The console looks itself where it reads runs by a rule.
        assert [run.run_id for run in runs if all(contains(run, word) for word in text.split())] == found, text
        assert await listed(other, text=text) == []
    assert await listed(run_id_prefix=hot) == [hot]
    assert await listed(run_id_prefix=hot[:30], text="cold") == []
    assert await listed(other, run_id_prefix=hot) == []
    assert await listed(run_id_prefix=hot[:4]) == [cold, hot]


async def test_labels_follow_a_fork_and_go_with_their_run(
    start_replica: StartReplica, first: OwnerStore, platform_pool: PlatformPool
) -> None:
    replica = await start_replica()
    labels = {"team": "payments"}
    run, _ = await replica.engine.create(new_run(thread_id="talk", labels=labels, title="What?"))
    await ended(replica, run)
    threads = ThreadStore(platform_pool, make_serde(), first, {"counting": replica.agent})
    await threads.fork(run.caller, Fork("talk", run.run_id, new_thread_id="copy"))
    search = RunSearch(platform_pool)
    wanted = RunFilter(labels=labels)
    page = await search.page(run.caller, wanted, limit=10)
    assert sorted(each.thread_id or "" for each in page.runs) == ["copy", "talk"]
    assert {each.title for each in page.runs} == {"What?"}
    await threads.delete(run.caller, "talk")
    page = await search.page(run.caller, wanted, limit=10)
    assert [each.thread_id for each in page.runs] == ["copy"]
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET ended_at = now() - interval '9 years', pruned = 0")
    history = CheckpointHistory(platform_pool, make_serde())
    await Pruner(platform_pool, history, {"default": RetentionPolicy(run_days=30)}).prune()
    assert (await search.page(run.caller, wanted, limit=10)).runs == []
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM platform.run_labels")
        assert await cursor.fetchall() == [(0,)]


async def test_runs_too_large_for_one_message_come_on_more_pages(
    stub: runs_pb2_grpc.RunServiceAsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, made = gateway_word("27"), []
    for question in ("1", "2", "3"):
        asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
        created = await stub.CreateRun(runs_pb2.CreateRunRequest(input=asked), metadata=who)
        made.append(created.run.run_id)
    monkeypatch.setattr("services.runtime.engine.pages.MOST_BYTES", 1)
    request, found = runs_pb2.ListRunsRequest(), list[list[str]]()
    while not found or request.page_token:
        page = await stub.ListRuns(request, metadata=who)
        found.append([run.run_id for run in page.runs])
        request.page_token = page.next_page_token
    assert found == [[run_id] for run_id in reversed(made)]
