"""kill -9 of the runtime and of the graph executor, while people are waited for and while changes are made.

Each run adds two tickets, joins them, and deletes the first with its edge, once a person has approved that. Whatever is
killed: each run ends well, each operation takes effect once, and what a model would have planned next time does not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import caller_pb2, outcome_pb2, runs_pb2

from services.cli.graph_edits import edit_request
from services.graph_executor.falkor import Falkor
from services.graph_executor.records import RESULT_LABEL
from services.kit.telemetry.logs import get_logger
from services.local.database import WORLD_GRAPH_POLICY
from services.local.processes import ServiceProcess
from tests.chaos.conftest import Extent
from tests.fixtures.client import RunClient
from tests.fixtures.script import ALLOW
from tests.fixtures.scripted_model import ModelRequest, Reply, ScriptedModel
from tests.fixtures.stack import GUARD_MODEL, Platform, platform, world
from tests.integration.graph_editor.faulty_executor import FaultyExecutor, standing_before

pytestmark = pytest.mark.faults

log = get_logger()
T = TypeVar("T")
CALLER = "chaos"
AT_ONCE = 6
OPERATIONS = 4
PATIENCE_S = 1800.0
LONGEST_ANSWER_S = 1.0
WAITING = "waiting"
APPLYING = "applying"


@dataclass
class WatchedExecutor(FaultyExecutor):
    """Knows when calls that write are on their way."""

    on_their_way: int = 0
    some: asyncio.Event = field(default_factory=asyncio.Event)

    async def CallTool(self, request: Any, context: Any) -> Any:  # noqa: N802 - the proto's name
        """Passes it on."""
        writes = request.tool in ("add_node", "add_edge", "delete_node")
        self._count(writes)
        try:
            return await super().CallTool(request, context)
        finally:
            self._count(-writes)

    def _count(self, more: int) -> None:
        self.on_their_way += more
        (self.some.set if self.on_their_way else self.some.clear)()


@dataclass
class Editing:
    """Runs one after another, several at once, and what they came to."""

    client: RunClient
    random: Random
    waiting: set[str] = field(default_factory=set)
    some_wait: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[runs_pb2.Run] = field(default_factory=list)

    async def go_on(self, enough: asyncio.Event) -> None:
        """Makes runs until there were enough."""
        while not enough.is_set():
            create = edit_request("Change some tickets.")
            # What is asked for again because somebody died is spent again.
            create.budget.CopyFrom(caller_pb2.Budget(wall_time_s=int(PATIENCE_S), tool_calls=1000, model_calls=1000))
            run = await until_available(partial(self.client.create, create))
            async with asyncio.timeout(PATIENCE_S):
                self.ended.append(await self._to_its_end(run.run_id))

    async def _to_its_end(self, run_id: str) -> runs_pb2.Run:
        while True:
            await until_available(lambda: self._watched(run_id))
            run = await until_available(lambda: self.client.get(run_id))
            if run.HasField("end_time"):
                return run
            if run.state == runs_pb2.RUN_STATE_AWAITING_INPUT:
                await self._answer(run)

    async def _watched(self, run_id: str) -> None:
        async for _ in self.client.watch(run_id):
            pass

    async def _answer(self, run: runs_pb2.Run) -> None:
        self.waiting.add(run.run_id)
        self.some_wait.set()
        await asyncio.sleep(self.random.uniform(0, LONGEST_ANSWER_S))  # a person takes their time
        asked = run.input_request.input_request_id
        request = runs_pb2.ResumeRunRequest(run_id=run.run_id, input_request_id=asked, answer="approve")
        try:
            await until_available(lambda: self.client.stub.ResumeRun(request, metadata=self.client.metadata))
        except grpc.aio.AioRpcError as error:
            # It was taken, and the word of it lost.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        self.waiting.discard(run.run_id)
        if not self.waiting:
            self.some_wait.clear()


async def until_available(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until somebody is there, and answers in time."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                await asyncio.sleep(0.1)


def ever_other_plans() -> Callable[[ModelRequest], Reply]:
    """A model that plans other nodes each time it is asked."""
    numbers = itertools.count()

    def respond(_request: ModelRequest) -> Reply:
        name = f"{next(numbers)}-{uuid4().hex[:8]}"
        gone, stays = ({"label": "User", "key": f"gone-{name}"}, {"label": "Ticket", "key": f"stays-{name}"})
        calls = [
            ("add_node", gone),
            ("add_node", stays),
            ("add_edge", {"type": "REPORTS", "from": gone, "to": stays}),
            ("delete_node", {**gone, "with_edges": True}),
        ]
        operations = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
        return Reply.tool_call("submit_plan", {"operations": operations, "goal_reached": True})

    return respond


@dataclass(frozen=True)
class Scene:
    """The platform, and what stands before its executor."""

    running: Platform
    watched: WatchedExecutor


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene() -> AsyncIterator[Scene]:
    """A platform with a graph and two replicas of the runtime."""
    async with world() as data, ScriptedModel(record=False) as model, standing_before(kind=WatchedExecutor) as watched:
        settings = {
            "SIGNALBOX_GRAPH_EXECUTOR_TARGET": f"ipv4:{watched.address}",
            "SIGNALBOX_PARSE_MODEL": "parse",
            "SIGNALBOX_PLAN_MODEL": "plan",
            # So many die here that a run may be claimed again and again without coming to the end of a step.
            "SIGNALBOX_MAX_IDLE_CLAIMS": "100",
        }
        goal = {"intent": "change", "complexity": "complex", "confidence": 1, "in_scope": True}
        model.script("parse", [Reply.tool_call("submit_goal", goal)], repeat="last")
        model.respond("plan", ever_other_plans())
        model.script(GUARD_MODEL, [ALLOW], repeat="last")
        async with platform(
            data,
            model=model,
            graph_policy=WORLD_GRAPH_POLICY,
            runtime_replicas=2,
            log_level="WARNING",
            service_env={"runtime": settings},
        ) as running:
            await watched.stand_before(running.stack.service("graph_executor").ready.listen)
            assert isinstance(watched, WatchedExecutor)
            yield Scene(running, watched)
            await running.verify_ledger()


async def kill_again_and_again(scene: Scene, editing: Editing, kills: int) -> Counter[tuple[str, str]]:
    """Kills services at moments of both kinds, and starts each again; returns how often which was killed when."""
    up: asyncio.Queue[ServiceProcess] = asyncio.Queue()
    stack = scene.running.stack
    for service in (*stack.runtimes, stack.service("graph_executor")):
        up.put_nowait(service)
    tally: Counter[tuple[str, str]] = Counter()
    async with asyncio.TaskGroup() as restarts:
        for _ in range(kills):
            victim = await up.get()
            moment = editing.random.choice((WAITING, APPLYING))
            reached = editing.some_wait if moment == WAITING else scene.watched.some
            async with asyncio.timeout(PATIENCE_S):
                await reached.wait()
            await asyncio.sleep(editing.random.uniform(0, 0.01))  # somewhere in what is on its way
            await victim.kill()
            tally[victim.name.partition("-")[0], moment] += 1
            log.info("killed", service=victim.name, moment=moment, kills=tally.total(), runs_ended=len(editing.ended))
            restarts.create_task(start_again(victim, up))
    return tally


async def start_again(service: ServiceProcess, up: asyncio.Queue[ServiceProcess]) -> None:
    """Starts a killed service, and makes it a victim again."""
    await service.start()
    up.put_nowait(service)


async def test_each_change_is_made_once_whoever_is_killed(scene: Scene, extent: Extent) -> None:
    editing = Editing(scene.running.caller(CALLER), extent.random())
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as load:
        for _ in range(AT_ONCE):
            load.create_task(editing.go_on(enough))
        tally = await kill_again_and_again(scene, editing, extent.graph_kills)
        enough.set()
    log.info(
        "all killed",
        kills={f"{service} {moment}": count for (service, moment), count in tally.items()},
        runs=len(editing.ended),
        claims=dict(Counter(run.epoch for run in editing.ended)),
    )
    assert sum(tally.values()) == extent.graph_kills
    assert len(set(tally)) == 4 or extent.graph_kills < 20, f"not everything was killed at every moment: {tally}"

    for run in editing.ended:
        output = run.output.graph_editor
        assert (run.state, output.outcome) == (
            runs_pb2.RUN_STATE_SUCCEEDED,
            outcome_pb2.OUTCOME_DONE,
        ), f"{run.stop_reason or run.error}, {run.epoch} claims, {run.spend}: {output.answer}"
        # Whoever made a change was told so, also when that was asked again: never that it had been there already.
        assert [step.result for step in output.steps] == ["created", "created", "created", "deleted"], output.steps
        planned = [str(step.arguments["key"]).partition("-")[2] for step in output.steps if "key" in step.arguments]
        assert len(set(planned)) == 1, output.steps
    kept, results, users = await in_the_graph(scene)
    # In the graph is what the runs say, and nothing of plans that a replica took with it.
    assert sorted(kept) == sorted(str(run.output.graph_editor.steps[1].arguments["key"]) for run in editing.ended)
    assert (results, users) == (OPERATIONS * len(editing.ended), 0)


async def in_the_graph(scene: Scene) -> tuple[list[str], int, int]:
    """The keys of the tickets, how many results are kept, and how many users there are."""
    falkor = Falkor(scene.running.stack.graph_database.url, ca=None, connections=1, wait_s=5, timeout_ms=30_000)
    graph = f"signalbox:{CALLER}"
    try:
        rows = await falkor.read(graph, "MATCH (t:Ticket) RETURN t.key", {})
        results = await falkor.read(graph, f"MATCH (kept:{RESULT_LABEL}) RETURN count(kept.key)", {})
        users = await falkor.read(graph, "MATCH (u:User) RETURN count(u.key)", {})
        return [key for [key] in rows.result_set], results.result_set[0][0], users.result_set[0][0]
    finally:
        await falkor.aclose()
