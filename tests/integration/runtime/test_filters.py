"""Whatever runs and decisions are looked for, a page reads a bounded number of rows: plans on a filled database."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.agents.registry import agent_graphs
from services.runtime.commands.migrate import migrate
from services.runtime.engine.database import open_pool
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunState
from services.runtime.engine.run_search import RunFilter, RunSearch
from services.runtime.engine.search import DecisionFilter, DecisionSearch, Place
from services.runtime.engine.verification import Verification
from tests.fixtures.many_runs import fill_platform
from tests.fixtures.postgres import PostgresCluster

RUNS, EACH, LOOKED_AT, COUNTED, LIMIT = 20_000, 5, 200, 1_000, 50
# Of agents there are a few.
SMALL = ("decisions_other", "agents")
# Walks from one router, rule or agent to the next look at an entry or two of each.
WALKED = 400
OPERATOR, CALLER = Caller("ops", frozenset({ROLE_OPERATOR})), Caller("caller 3", frozenset())
SINCE = datetime.now(UTC) - timedelta(days=1)
# What may be given of each part of a filter, nothing first; of some there are many runs, of some few, of some none.
STATES = [None, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.RUNNING, RunState.AWAITING_INPUT]
AGENTS = [None, "data_chat", "graph_editor", "incident_investigation"]
LABELS: list[Mapping[str, str]] = [{}, {"rare": "yes", "half": "1"}, {"none": "x"}]
PARTS: dict[str, Sequence[Any]] = {
    "agent": AGENTS,
    "state": STATES,
    "outcome": [None, Outcome.ANSWERED],
    "thread_id": [None, "thread 7"],
    "since": [None, SINCE],
    "labels": LABELS,
}
BY_PARTS = [RunFilter(**dict(zip(PARTS, given, strict=True))) for given in itertools.product(*PARTS.values())]
# What has no index of its own is tried on what is read for the rest.
RUN_FILTERS = [
    *BY_PARTS,
    *(replace(each, words=words) for each in BY_PARTS[::5] for words in (("how", "devices"), ("1999",))),
    *(replace(each, id_prefix=prefix) for each in BY_PARTS[::7] for prefix in ("0", "ffff")),
]


class Explained:
    """A pool whose statements are explained as they are executed; `read` is what scans of the last one read."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.plain = connection
        self.read: dict[str, float] = {}

    def connection(self) -> Explained:
        """The one there is."""
        return self

    async def __aenter__(self) -> Explained:
        return self

    async def __aexit__(self, *_: object) -> None:
        """It is lent on."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins one."""
        async with self.plain.transaction():
            yield

    def cursor(self, **options: Any) -> Explained:
        """Rows come as the caller wants them."""
        self._cursor = self.plain.cursor(**options)
        return self

    async def execute(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> None:
        """Executes it twice, or once where it only sets something."""
        if parameters is None:
            await self.plain.execute(statement)
            return
        text = statement if isinstance(statement, str) else statement.as_string(self.plain)
        plan = await self.plain.execute(
            f"EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF, FORMAT JSON) {text}".encode(), parameters
        )
        [(explained,)] = await plan.fetchall()
        self.read = {}
        for name, rows in scans(explained[0]["Plan"]):
            self.read[name] = self.read.get(name, 0) + rows
        await self._cursor.execute(statement, parameters)

    async def fetchall(self) -> list[Any]:
        """What came of it."""
        return list(await self._cursor.fetchall())


def scans(plan: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every scan of a plan, and how many rows it read."""
    if "Scan" in plan["Node Type"] and ("Relation Name" in plan or "Index Name" in plan):
        thrown = sum(plan.get(f"Rows Removed by {how}", 0) for how in ("Filter", "Index Recheck"))
        name = f"{plan['Node Type']} {plan.get('Relation Name', plan.get('Index Name'))}"
        yield name, (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    for below in plan.get("Plans", ()):
        yield from scans(below)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for the connections of this module."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def filled(postgres_cluster: PostgresCluster, runner: asyncio.Runner) -> Iterator[Explained]:
    """A database with many runs."""
    name = postgres_cluster.create_database()
    dsn = postgres_cluster.dsn(name)
    migrate(dsn)
    fill_platform(dsn, runs=RUNS, each=EACH)
    connection = runner.run(AsyncConnection.connect(dsn, autocommit=True))
    yield Explained(connection)
    runner.run(connection.close())
    postgres_cluster.drop_database(name)


def check_read(explained: Explained, most: float, what: object) -> None:
    """Nothing was read whole, and no more than so many rows altogether."""
    whole = [name for name in explained.read if name.startswith("Seq Scan") and name.split()[-1] not in SMALL]
    assert not whole, (what, explained.read)
    # Of a word's entries a bitmap is made, which costs next to nothing and has a time limit.
    rows = sum(rows for name, rows in explained.read.items() if name != "Bitmap Index Scan run_words_by_word")
    assert rows <= most, (what, explained.read)


@pytest.mark.parametrize("caller", [OPERATOR, CALLER], ids=["operator", "caller"])
def test_every_filter_of_runs(filled: Explained, runner: asyncio.Runner, caller: Caller) -> None:
    search = RunSearch(filled, looked_at=LOOKED_AT)  # type: ignore[arg-type]  # it stands for a pool
    for wanted in RUN_FILTERS:
        runner.run(search.page(caller, wanted, limit=LIMIT))
        # Entries, of each label to find the rarest, and the runs themselves; those under way are all read.
        check_read(filled, (len(wanted.labels) + 3) * LOOKED_AT, (caller.subject, wanted))


def test_what_pages_bring_is_what_fits(filled: Explained, runner: asyncio.Runner) -> None:
    """Pages that end for what was looked at go on where they ended."""
    search = RunSearch(filled, looked_at=LOOKED_AT)  # type: ignore[arg-type]  # it stands for a pool

    async def found(wanted: RunFilter) -> list[str]:
        run_ids, after = list[str](), None
        while True:
            page = await search.page(OPERATOR, wanted, limit=LIMIT, after=after)
            run_ids += [run.run_id for run in page.runs]
            if (after := page.after) is None:
                return run_ids

    conditions: list[tuple[RunFilter, LiteralString]] = [
        (RunFilter(agent="graph_editor", state=RunState.SUCCEEDED), "agent = 'graph_editor' AND state = 'SUCCEEDED'"),
        (RunFilter(state=RunState.FAILED, agent="data_chat"), "agent = 'data_chat' AND state = 'FAILED'"),
        (RunFilter(state=RunState.RUNNING), "state = 'RUNNING'"),
        (RunFilter(subject="caller 3", state=RunState.NEEDS_REVIEW), "subject = 'caller 3' AND state = 'NEEDS_REVIEW'"),
        (RunFilter(words=("DEVICES", "7?"), state=RunState.FAILED), "title LIKE '%%7?' AND state = 'FAILED'"),
        (RunFilter(words=("half=1",), state=RunState.FAILED), "labels @> '{\"half\": \"1\"}' AND state = 'FAILED'"),
        (RunFilter(words=("dev", "19999"), agent="data_chat"), "title LIKE '%% 19999_'"),
        (RunFilter(words=("evices",)), "false"),
        (RunFilter(labels={"half": "1"}, state=RunState.FAILED), "labels @> '{\"half\": \"1\"}' AND state = 'FAILED'"),
    ]
    for wanted, condition in conditions:
        text = sql.SQL("SELECT run_id::text FROM platform.runs AS r WHERE {} ORDER BY r.created_at DESC, r.run_id DESC")
        cursor = runner.run(filled.plain.execute(text.format(sql.SQL(condition))))
        assert runner.run(found(wanted)) == [run_id for (run_id,) in runner.run(cursor.fetchall())]


@pytest.mark.parametrize("is_locked", [False, True], ids=["by-index", "too-late"])
def test_words_that_few_runs_have_are_found_at_once(
    filled: Explained, runner: asyncio.Runner, postgres_cluster: PostgresCluster, *, is_locked: bool
) -> None:
    """However far back; where the index takes too long, a page at a time as before."""
    search = RunSearch(filled, looked_at=LOOKED_AT)  # type: ignore[arg-type]  # it stands for a pool
    wanted = RunFilter(words=("caller", "19999"), since=SINCE - timedelta(days=30))
    with psycopg.connect(postgres_cluster.dsn(filled.plain.info.dbname)) as other:
        if is_locked:
            other.execute("LOCK TABLE platform.run_words")
        page = runner.run(search.page(OPERATOR, wanted, limit=LIMIT))
    found = [run.title for run in page.runs]
    assert (found, page.after is None) == (([], False) if is_locked else (["How many devices has caller 19999?"], True))


DECISION_PARTS: dict[str, Sequence[Any]] = {
    "agent": ["data_chat", "graph_editor", "incident_investigation", ""],
    "router": ["", "data_chat.route_after_agent", "incident_investigation.route_after_agent"],
    "rule": ["", "no_such_rule"],
    "since": [None, SINCE],
    "until": [None, SINCE],
    "subject": [None, "caller 3", "nobody"],
    "correlation_id": ["", "c77", "none"],
}
DECISION_FILTERS = [
    DecisionFilter(**dict(zip(DECISION_PARTS, given, strict=True)))
    for given in itertools.product(*DECISION_PARTS.values())
]
# Those of the agent with the most routers are read for each.
MOST_ROUTERS = max(len(graph.routers) for graph in agent_graphs())


def test_every_filter_of_decisions(filled: Explained, runner: asyncio.Runner) -> None:
    search = DecisionSearch(filled, looked_at=LOOKED_AT)  # type: ignore[arg-type]  # it stands for a pool
    for wanted in DECISION_FILTERS:
        runner.run(search.page(wanted, Place(), LIMIT))
        check_read(filled, (MOST_ROUTERS + 1) * LOOKED_AT + WALKED, wanted)


def test_every_count_of_decisions(filled: Explained, runner: asyncio.Runner) -> None:
    search = DecisionSearch(filled, counted=COUNTED)  # type: ignore[arg-type]  # it stands for a pool
    for wanted in DECISION_FILTERS:
        if wanted.agent and not (wanted.rule or wanted.until or wanted.correlation_id):
            runner.run(search.count(wanted, timedelta()))
            # The second time for what may be older: of each rule, of a caller's runs and of the last decision of each.
            rules = sum(len(router.rules) for graph in agent_graphs() for router in graph.routers)
            check_read(filled, (MOST_ROUTERS + rules + 4) * COUNTED + WALKED, wanted)


@pytest.mark.parametrize("stages", [[0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("agent", [None, "data_chat", "graph_editor", "incident_investigation"])
def test_a_round_of_retention(filled: Explained, runner: asyncio.Runner, agent: str | None, stages: list[int]) -> None:
    """Reads what is due of this policy's agents, past all that others keep for longer."""
    others = ["data_chat"] if agent is None else []
    parameters = {
        "agent": agent, "others": others, "from_stages": stages, "age_s": 3600.0, "next_age_s": None, "limit": LIMIT,
        "is_read": True, "pool": "",
    }  # fmt: skip
    cursor = filled.cursor()
    runner.run(cursor.execute(query("runs_to_prune"), parameters))
    check_read(filled, 2 * 5 * len(stages) * LIMIT + 20, parameters)


async def test_the_whole_ledger_is_verified(platform_dsn: str) -> None:
    """The database decides; what it can't decide, or finds otherwise, Python does."""
    fill_platform(platform_dsn, runs=2_000, each=EACH)
    tampered = [
        "UPDATE platform.decisions SET rule = 'no_such_rule' WHERE (run_id, sequence) = (%s, 1)",
        "UPDATE platform.decisions SET destination = 'nowhere' WHERE (run_id, sequence) = (%s, 2)",
        "UPDATE platform.decisions SET facts = '{}' WHERE (run_id, sequence) = (%s, 3)",
        "UPDATE platform.decisions SET policy_version = 'gone' WHERE (run_id, sequence) = (%s, 4)",
        "UPDATE platform.decisions SET rule = 'node_failed' WHERE (run_id, sequence) = (%s, 5)",
    ]
    routers = {router.name: router for graph in agent_graphs() for router in graph.routers}
    async with open_pool(platform_dsn, size=2) as pool:
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT run_id FROM platform.runs ORDER BY run_id LIMIT 1")
            [(run_id,)] = await cursor.fetchall()
            for statement in tampered:
                await connection.execute(statement.encode(), [run_id])
        verification = Verification(Ledger(pool), routers)
        found = [each async for each in verification.disagreements(None)]
    assert {each.recorded.decided.sequence for each in found} == {1, 2}
    assert {each.recorded.decided.run_id for each in found} == {str(run_id)}
    assert (verification.decision_count, verification.skipped_count) == (2_000 * EACH, 2)
