"""All agents under one load, and one fault after another: runs come to what they come to undisturbed, only later."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from services.graph_executor.falkor import Falkor
from services.graph_executor.records import RESULT_LABEL
from services.kit.telemetry.logs import get_logger
from services.local.database import WORLD_GRAPH_POLICY
from services.local.stack import LocalStack
from tests.chaos.conftest import Extent
from tests.chaos.deployment import LEASE_S, kill_and_start, until
from tests.chaos.full_disk import filled, make_databases_there, small_disk, tables_full
from tests.chaos.mixed_load import EDITOR, MixedLoad, ended_as, requests_in
from tests.chaos.test_database_cut import CUT_BUSY
from tests.chaos.test_replica_frozen import freeze_at_work
from tests.fixtures.hosted import FOLDER
from tests.fixtures.ledger import check_order
from tests.fixtures.script import ALLOW
from tests.fixtures.scripted_model import ANY_MODEL, Reply, ScriptedModel
from tests.fixtures.stack import platform, world

pytestmark = pytest.mark.faults

log = get_logger()
EDITORS = 2
CUTS = 10
GUARD = "signalbox-offline-guard"
# What each agent may wait for behind the guard; judges serve several of them.
AGENTS = (
    {"agent"},
    {"triage", "analysis", "evaluator"},
    {"research", "analysis", "evaluator"},
    {"incident", "evaluator"},
    {"parse", "plan"},
)
MOST_APART = 10  # runs that end between two faults
GARBAGE = [Reply.raw("<html>Bad gateway</html>"), Reply.raw(""), Reply.raw('{"choices": []}')]
# Runs whose decisions or events have a gap or a repeat.
_BROKEN = """
    SELECT run_id::text FROM platform.decisions GROUP BY run_id
    HAVING min(sequence) <> 1 OR max(sequence) <> count(*) OR count(DISTINCT decision_id) <> count(*)
    UNION
    SELECT run_id::text FROM platform.run_events GROUP BY run_id
    HAVING min(sequence) <> 1 OR max(sequence) <> count(*)
"""
_UNFINISHED = "SELECT run_id::text FROM platform.runs WHERE ended_at IS NULL"


@dataclass(frozen=True)
class Faults:
    """What happens, and is over when the call returns."""

    load: MixedLoad
    disk: Path | None
    extent: Extent

    @property
    def all(self) -> list[Callable[[], Awaitable[None]]]:
        """Each of them."""
        killed = [self._killed(name) for name in ("sql_executor", "graph_executor", "code_executor", "gateway")]
        replica, garbage = (self.replica_killed, self.replica_frozen), (self.guards_garbage, self.agents_garbage)
        return [*killed, *replica, self.sessions_cut, self.disk_full, *garbage]

    @property
    def _stack(self) -> LocalStack:
        return self.load.running.stack

    def _killed(self, name: str) -> Callable[[], Awaitable[None]]:
        async def kill() -> None:
            await kill_and_start(self._stack.service(name))

        kill.__name__ = f"{name}_killed"
        return kill

    async def replica_killed(self) -> None:
        """A replica of the runtime dies."""
        await kill_and_start(self.load.random.choice(self._stack.runtimes))

    async def replica_frozen(self) -> None:
        """A replica stands still past its lease."""
        frozen, *others = self.load.random.sample(self._stack.runtimes, len(self._stack.runtimes))
        try:
            await freeze_at_work(frozen, others)
        finally:
            frozen.signal(signal.SIGCONT)

    async def sessions_cut(self) -> None:
        """Connections to the platform's database are cut in mid-statement."""
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            cuts: list[int] = []

            async def enough() -> bool:
                cursor = await connection.execute(CUT_BUSY)
                cuts.extend([count for (count,) in await cursor.fetchall()])
                return sum(cuts) >= CUTS

            await until(enough, "connections to be cut")

    async def disk_full(self) -> None:
        """The platform's database has no room for more, for longer than a lease."""
        async with filled(self.disk) if self.disk else tables_full(self._dsn):
            log.info("disk full", really=self.disk is not None)
            over_at = time.monotonic() + self.extent.outage_s

            async def over() -> bool:
                return time.monotonic() >= over_at

            await until(over, "every lease to end")

    async def guards_garbage(self) -> None:
        """The models' endpoint answers 200, and nothing that is an answer, to the guard first."""
        await self._garbage([{"guard"}], guard=GARBAGE)

    async def agents_garbage(self) -> None:
        """It answers so to all but the guard, until each agent has met it."""
        await self._garbage(AGENTS, guard=[ALLOW])

    async def _garbage(self, met_by: Sequence[set[str]], *, guard: Sequence[Reply]) -> None:
        model = self._stack.service("offline_model")
        await model.kill()
        async with ScriptedModel(model.ready.listen) as server:
            server.script(ANY_MODEL, GARBAGE, repeat="cycle")
            server.script(GUARD, guard, repeat="cycle")

            async def met() -> bool:
                asked = Counter(request.model.rpartition("-")[2] for request in server.requests)
                return all(sum(asked[name] for name in names) >= len(GARBAGE) for names in met_by)

            await until(met, "garbage to be met")
            log.info("garbage", models=Counter(request.model for request in server.requests))
        await model.start()

    @property
    def _dsn(self) -> str:
        return str(self._stack.databases.platform_dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faults(tmp_path_factory: pytest.TempPathFactory, extent: Extent) -> AsyncIterator[Faults]:
    """A platform of all agents and two replicas, on a small disk where there may be one, and its load."""
    folder = tmp_path_factory.mktemp("code")
    env = {"SIGNALBOX_LEASE_S": f"{LEASE_S:g}", "SIGNALBOX_AGENT_FOLDERS": str(FOLDER)}
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(small_disk())
        data = await stack.enter_async_context(world())
        if disk:
            await make_databases_there(data.cluster_dsn, disk)
        running = await stack.enter_async_context(
            platform(
                data,
                code_agents=True,
                code_roots=(folder,),
                graph_policy=WORLD_GRAPH_POLICY,
                runtime_replicas=2,
                log_level="WARNING",
                service_env={"runtime": env},
            )
        )
        requests = await requests_in(folder, running)
        yield Faults(MixedLoad(running, requests, extent.random()), disk, extent)


async def test_runs_come_to_what_they_come_to_undisturbed(faults: Faults) -> None:
    load = faults.load
    undisturbed = {name: ended_as(await load.ask(name, request)) for name, request in load.requests.items()}
    log.info("undisturbed", ended=undisturbed)
    harm = faults.all
    load.random.shuffle(harm)
    async with asyncio.TaskGroup() as callers:
        for name in load.requests:
            callers.create_task(load.ask_on(name))
        for _ in range(EDITORS):
            callers.create_task(load.edit_on())
        try:
            for do in harm:
                await load.more(load.random.randint(1, MOST_APART))
                start = time.monotonic()
                await do()
                log.info("done", harm=do.__name__, took_s=round(time.monotonic() - start, 1), runs=len(load.told))
            await load.more(len(load.requests))
        finally:
            load.stopping = True
    log.info("ended", runs=Counter(watched.name for watched in load.told))
    await check_told(load, undisturbed)
    await check_graph(load)
    await check_ledger(load)


async def check_told(load: MixedLoad, undisturbed: dict[str, tuple[Any, ...]]) -> None:
    """Checks that every caller was told everything once, in order, and the end that is right."""
    done = ("RUN_STATE_SUCCEEDED", "OUTCOME_DONE", "", "")
    for watched in load.told:
        assert ended_as(watched.run) == undisturbed.get(watched.name, done), watched.run
        if watched.name == "hosted":  # which has several decisions a step
            assert [event.sequence for event in watched.events] == list(range(1, len(watched.events) + 1))
        else:
            check_order(await load.client(watched.name).finish(watched.events))
    assert {watched.name for watched in load.told} == {*load.requests, "edit"}
    assert any(watched.run.epoch > 1 for watched in load.told), "no run was ever taken over: the faults hit nothing"
    assert any(watched.reconnects for watched in load.told), "nobody lost a stream: the faults hit nothing"
    assert any(watched.waited for watched in load.told), "no run ever waited: the faults hit nothing"


async def check_graph(load: MixedLoad) -> None:
    """Checks that in the graph is what the runs say, once, and nothing else."""
    falkor = Falkor(load.running.stack.graph_database.url, ca=None, connections=1, wait_s=5, timeout_ms=30_000)
    graph = f"signalbox:{EDITOR}"
    try:
        pairs = await falkor.read(graph, "MATCH (u:User)-[:REPORTS]->(t:Ticket) RETURN t.key, t.status, u.key", {})
        nodes = await falkor.read(graph, "MATCH (n) WHERE n:Ticket OR n:User RETURN count(n)", {})
        results = await falkor.read(graph, f"MATCH (kept:{RESULT_LABEL}) RETURN count(kept.key)", {})
    finally:
        await falkor.aclose()
    left = {key: status for key, status in load.tickets.items() if status}
    assert sorted(pairs.result_set) == sorted([key, status, f"u.{key}"] for key, status in left.items())
    assert nodes.result_set == [[2 * len(left)]]
    steps = [step for run in (each.run for each in load.told) for step in run.output.graph_editor.steps]
    assert results.result_set == [[len(steps)]]
    assert len({step.operation_id for step in steps}) == len(steps)


async def check_ledger(load: MixedLoad) -> None:
    """Checks that all runs ended, and that what is recorded has no gap, no repeat and is decided again alike."""
    async with await psycopg.AsyncConnection.connect(load.running.stack.databases.platform_dsn) as connection:
        for statement in (_UNFINISHED, _BROKEN):
            cursor = await connection.execute(statement)
            assert await cursor.fetchall() == [], statement
    await load.running.verify_ledger()
