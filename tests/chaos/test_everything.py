"""All agents under one load, and one fault after another: runs come to what they come to undisturbed, only later.

Each caller asks one thing again and again; editors make tickets, close them and take back some of it in one graph.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from signalbox.v1 import caller_pb2, outcome_pb2, runs_pb2, sast_pb2

from examples.harbour import repository as portal
from examples.harbour.incidents import repository as services_repository
from examples.harbour.incidents.world import CASES
from services.cli.graph_edits import edit_request
from services.cli.investigation import investigation_input
from services.cli.triage import triage_input
from services.findings.investigation.repository import open_source
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from services.graph_executor.falkor import Falkor
from services.graph_executor.records import RESULT_LABEL
from services.kit.telemetry.logs import get_logger
from services.local.database import WORLD_GRAPH_POLICY
from tests.chaos.conftest import Extent
from tests.chaos.deployment import LEASE_S, kill_and_start, until
from tests.chaos.full_disk import filled, make_databases_there, small_disk, tables_full
from tests.chaos.load import CUT, WatchedRun, hear_out
from tests.chaos.test_database_cut import CUT_BUSY
from tests.chaos.test_replica_frozen import freeze_at_work
from tests.e2e.test_graph_editor import THREE_STEPS
from tests.e2e.test_hosted_graphs import FOLDER, asking
from tests.e2e.test_incidents import Incidents
from tests.fixtures.client import RunClient, question
from tests.fixtures.ledger import check_order
from tests.fixtures.ports import place_kept
from tests.fixtures.scripted_model import ANY_MODEL, Reply, ScriptedModel
from tests.fixtures.stack import Platform, platform, world

pytestmark = pytest.mark.faults

log = get_logger()
EDITOR = "chaos"
EDITORS = 2
CUTS = 10
GARBAGE_ANSWERS = 24
MOST_APART = 10  # runs that end between two faults
# What is asked for again because somebody died is spent again, and what is away is waited for.
PATIENT = caller_pb2.Budget(wall_time_s=1200, tool_calls=1000, model_calls=1000)
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


@dataclass
class Load:
    """Callers of every agent, what they were told, and the tickets that there must be."""

    running: Platform
    requests: dict[str, runs_pb2.CreateRunRequest]
    random: Random
    told: list[WatchedRun] = field(default_factory=list)
    tickets: dict[str, str] = field(default_factory=dict)
    stopping: bool = False

    async def ask(self, name: str, create: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Asks, and listens to the end, coming back whenever the connection breaks."""
        create.request_id = str(uuid4())
        create.budget.CopyFrom(PATIENT)
        if create.input.HasField("incident_investigation"):
            create.input.incident_investigation.incident_id = f"INC-{create.request_id}"
        watched = WatchedRun(name)
        await hear_out(self.client(name), create, watched, mending=CUT)
        self.told.append(watched)
        return watched.run

    def client(self, name: str) -> RunClient:
        """Who asks."""
        return self.running.caller(EDITOR if name == "edit" else "27")

    async def ask_on(self, name: str) -> None:
        """Asks the same again and again."""
        while not self.stopping:
            await self.ask(name, self.requests[name])

    async def edit_on(self) -> None:
        """Makes a ticket with its user, closes it, and takes back nothing, the last change or both."""
        while not self.stopping:
            key = f"T-{uuid4().hex[:8]}"
            made = await self.ask("edit", edit_request(THREE_STEPS.format(ticket=key, user=f"u.{key}")))
            self.tickets[key] = "open"
            closed = await self.ask("edit", edit_request(f"Update the status of ticket {key} to 'closed'."))
            self.tickets[key] = "closed"
            for change, left in [(closed, "open"), (made, "")][: self.random.randint(0, 2)]:
                await self.ask("edit", edit_request(undo_run_id=change.run_id))
                self.tickets[key] = left

    async def more(self, count: int) -> None:
        """Waits until so many more runs have ended."""
        wanted = len(self.told) + count

        async def ended() -> bool:
            return len(self.told) >= wanted

        await until(ended, f"{count} more runs to end")


def ended_as(run: runs_pb2.Run) -> tuple[Any, ...]:
    """What a run came to: its state and outcome, and what it says of what it was asked."""
    output = getattr(run.output, run.output.WhichOneof("agent"))
    names = [name for name in ("answer", "verdict", "root_cause") if name in output.DESCRIPTOR.fields_by_name]
    said = [getattr(output, name) for name in names if run.agent != "graph_editor"]
    return runs_pb2.RunState.Name(run.state), outcome_pb2.Outcome.Name(run.outcome), run.stop_reason, run.error, *said


@dataclass(frozen=True)
class Faults:
    """What happens, and is over when the call returns."""

    load: Load
    disk: Any
    extent: Extent

    @property
    def all(self) -> list[Callable[[], Awaitable[None]]]:
        """Each of them."""
        killed = [self._killed(name) for name in ("sql_executor", "graph_executor", "code_executor", "gateway")]
        return [*killed, self.replica_killed, self.replica_frozen, self.sessions_cut, self.disk_full, self.garbage]

    @property
    def _stack(self) -> Any:
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

    async def garbage(self) -> None:
        """The model's endpoint answers 200, and nothing that is an answer."""
        model = self._stack.service("offline_model")
        await model.kill()
        with place_kept(model):
            async with ScriptedModel(model.ready.listen) as server:
                server.script(ANY_MODEL, GARBAGE, repeat="cycle")
                await server.wait_for_requests(GARBAGE_ANSWERS)
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
        finding, code = await finding_in(portal.create(folder / "portal"))
        incidents = Incidents(running, services_repository.make(folder / "services"))
        requests = {
            "question": question("How many devices do I have?"),
            "triage": runs_pb2.CreateRunRequest(input=triage_input(finding, code)),
            "investigation": runs_pb2.CreateRunRequest(input=investigation_input(finding, code)),
            "incident": incidents.request(CASES[0]),
            "hosted": asking("slow_chain", until=6),
        }
        yield Faults(Load(running, requests, extent.random()), disk, extent)


async def finding_in(made: portal.ServiceRepository) -> tuple[sast_pb2.Finding, sast_pb2.CodeSource]:
    """A finding of the portal, and where its code is."""
    source = await open_source(made.path, made.commit)
    [first, *_] = read_results(read_document(portal.FINDINGS), RepositoryPaths(root=made.path, files=source.files))
    return first.finding, sast_pb2.CodeSource(repository=made.path, commit=made.commit)


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


async def check_told(load: Load, undisturbed: dict[str, tuple[Any, ...]]) -> None:
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


async def check_graph(load: Load) -> None:
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


async def check_ledger(load: Load) -> None:
    """Checks that all runs ended, and that what is recorded has no gap, no repeat and is decided again alike."""
    async with await psycopg.AsyncConnection.connect(load.running.stack.databases.platform_dsn) as connection:
        for statement in (_UNFINISHED, _BROKEN):
            cursor = await connection.execute(statement)
            assert await cursor.fetchall() == [], statement
    await load.running.verify_ledger()
