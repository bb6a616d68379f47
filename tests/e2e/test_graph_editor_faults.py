"""What goes wrong around a goal: replicas and databases that die, plans that don't fit, people who don't answer.

Each effect takes place once, the model's second thoughts do not count, and what was not done is not claimed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import outcome_pb2, runs_pb2

from services.cli.graph_edits import edit_request
from services.kit.models.prompts import read_data
from services.local.database import WORLD_GRAPH_POLICY
from tests.fixtures.client import RunClient
from tests.fixtures.graph_edits import Editor
from tests.fixtures.script import ALLOW
from tests.fixtures.scripted_model import ModelRequest, Reply, ScriptedModel
from tests.fixtures.stack import GUARD_MODEL, Platform, World, platform
from tests.integration.graph_editor.faulty_executor import FaultyExecutor, Held, passed, refused, standing_before

T = TypeVar("T")
Call = tuple[str, Mapping[str, Any]]
OPERATIONS = 4
TIMEOUT_S = 120.0
COMPLEX = Reply.tool_call("submit_goal", {"intent": "add", "complexity": "complex", "confidence": 1, "in_scope": True})


@dataclass(frozen=True)
class Scene:
    """A platform whose executor can be held, and whose model never says the same twice."""

    running: Platform
    faulty: FaultyExecutor
    model: ScriptedModel
    limits: Path

    @property
    def editor(self) -> Editor:
        """A caller."""
        return Editor(self.running.caller("27"))

    def plans(self, *plans: Sequence[Call]) -> list[ModelRequest]:
        """Says what the model plans, one plan after another; returns what it is asked, as it is."""
        replies = [
            Reply.tool_call(
                "submit_plan",
                {"operations": [{"tool": tool, "arguments": said} for tool, said in calls], "goal_reached": True},
            )
            for calls in plans
        ]
        self.model.script("plan", replies)
        self.faulty.calls.clear()
        self.model.requests.clear()
        return self.model.requests

    async def kill_runtime(self) -> None:
        """Kills the runtime and starts it again."""
        runtime = self.running.stack.service("runtime")
        await runtime.kill()
        await runtime.start()


def never_the_same(tool: str, operations: int) -> tuple[list[list[str]], Callable[[ModelRequest], Reply]]:
    """A model that plans other nodes each time it is asked; and the keys that it has planned, by plan."""
    plans: list[list[str]] = []
    numbers = itertools.count()

    def respond(_request: ModelRequest) -> Reply:
        keys = [f"{uuid4().hex[:8]}-{next(numbers)}" for _ in range(operations)]
        plans.append(keys)
        calls = [{"tool": tool, "arguments": {"label": "Ticket", "key": key}} for key in keys]
        return Reply.tool_call("submit_plan", {"operations": calls, "goal_reached": True})

    return plans, respond


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """The platform."""
    async with ScriptedModel() as model, standing_before() as faulty:
        limits = tmp_path_factory.mktemp("limits") / "policies.yaml"
        limits.write_text("{}")
        settings = {
            "SIGNALBOX_POLICY_FILE": str(limits),
            "SIGNALBOX_GRAPH_EXECUTOR_TARGET": f"ipv4:{faulty.address}",
            "SIGNALBOX_PARSE_MODEL": "parse",
            "SIGNALBOX_PLAN_MODEL": "plan",
        }
        async with platform(
            harbour, model=model, graph_policy=WORLD_GRAPH_POLICY, service_env={"runtime": settings}
        ) as running:
            await faulty.stand_before(running.stack.service("graph_executor").ready.listen)
            model.script("parse", [COMPLEX], repeat="last")
            model.script(GUARD_MODEL, [ALLOW], repeat="last")
            yield Scene(running, faulty, model, limits)
            await running.verify_ledger()


async def ended(scene: Scene, run_id: str) -> runs_pb2.Run:
    """Waits for the end of a run, whatever happens to streams on the way."""
    client = scene.running.caller("27")
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            async for event in client.watch(run_id):
                if event.HasField("run_ended"):
                    return event.run_ended.run


async def answered(client: RunClient, request: runs_pb2.ResumeRunRequest) -> None:
    """Answers a question, as soon as the gateway has found the runtime again."""
    await until_available(lambda: client.stub.ResumeRun(request, metadata=client.metadata))


async def created(client: RunClient, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
    """Creates a run, as soon as the gateway has found the runtime again; the request has an id."""
    return await until_available(lambda: client.create(request))


async def until_available(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until somebody is there."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return await ask()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("after_effect", [True, False])
async def test_each_effect_takes_place_once(scene: Scene, after_effect: bool) -> None:
    plans, respond = never_the_same("add_node", OPERATIONS)
    scene.model.respond("plan", respond)
    scene.faulty.calls.clear()
    client = scene.running.caller("27")
    run = await client.create(edit_request("Add some tickets."))
    # Each operation is stopped the first time it is asked for, and its replica killed.
    for _ in range(OPERATIONS):
        held = Held(after_effect=after_effect)
        scene.faulty.faults.append(held)
        await asyncio.wait_for(held.reached.wait(), TIMEOUT_S)
        await scene.kill_runtime()
    done = await ended(scene, run.run_id)

    output = done.output.graph_editor
    assert (done.state, output.outcome) == (runs_pb2.RUN_STATE_SUCCEEDED, outcome_pb2.OUTCOME_DONE)
    assert done.epoch == OPERATIONS + 1
    # The model was asked once: what it would have said the next time never came to be.
    [keys] = plans
    assert [step.arguments["key"] for step in output.steps] == keys
    # The one that made a node said so, and its repeat was told the same.
    assert [step.result for step in output.steps] == ["created"] * OPERATIONS
    asked = [operation for _, operation in scene.faulty.calls]
    assert len(asked) == 2 * OPERATIONS
    assert len(set(asked)) == OPERATIONS


async def test_a_run_that_waits_for_a_person_outlives_its_replica(scene: Scene) -> None:
    named = key()
    scene.plans([ticket(named)])
    assert (await scene.editor.ask("Add a ticket.")).ended == ("SUCCEEDED", "DONE")
    asked = scene.plans([("delete_node", {"label": "Ticket", "key": named})])
    client = scene.running.caller("27")
    events = [event async for event in client.execute(edit_request("Delete the ticket."))]
    waiting = await client.stub.GetRun(runs_pb2.GetRunRequest(run_id=events[-1].run_id), metadata=client.metadata)
    assert waiting.run.state == runs_pb2.RUN_STATE_AWAITING_INPUT
    await scene.kill_runtime()
    request = runs_pb2.ResumeRunRequest(
        run_id=waiting.run.run_id,
        input_request_id=waiting.run.input_request.input_request_id,
        answer="decline",
    )
    await answered(client, request)
    done = await ended(scene, waiting.run.run_id)
    assert done.state == runs_pb2.RUN_STATE_SUCCEEDED
    assert [request.model for request in asked].count("plan") == 1
    assert scene.faulty.calls == []


def ticket(key: str, **properties: str) -> Call:
    """Adds a ticket."""
    return "add_node", {"label": "Ticket", "key": key, "properties": properties}


def key() -> str:
    """A key that no other test has."""
    return f"T-{uuid4().hex[:8]}"


async def there(scene: Scene, named: str) -> bool:
    """Whether there is such a ticket, as the agent finds it."""
    find = {"label": "Ticket", "where": [{"property": "key", "value": named}]}
    scene.plans([("query_graph", find)])
    scene.model.script("answer", [Reply.http_error(400)])  # what was found is shown as it came
    found = await scene.editor.ask("Look for it.")
    assert found.ended == ("SUCCEEDED", "DONE")
    return named in found.answer


async def test_the_graph_database_is_away_in_the_middle_of_a_plan(scene: Scene) -> None:
    keys = [key() for _ in range(OPERATIONS)]
    scene.plans([ticket(each) for each in keys])
    held = Held(after_effect=True)
    scene.faulty.faults = [passed, held]
    run = await scene.editor.client.create(edit_request("Add some tickets."))
    await asyncio.wait_for(held.reached.wait(), TIMEOUT_S)
    # The second operation has taken effect, and nobody was told: then the database is gone.
    await scene.running.stack.graph_database.kill()
    held.release()
    async with asyncio.timeout(TIMEOUT_S):
        async for event in scene.editor.client.watch(run.run_id):
            if event.state_changed.waiting_for:
                break
    assert event.state_changed.waiting_for == "graph_executor"
    await scene.running.stack.graph_database.start()
    done = await ended(scene, run.run_id)

    edited = await scene.editor.found(run.run_id)
    assert edited.ended == ("SUCCEEDED", "DONE")
    assert edited.rules == ["complex", "planned", "valid", *["ok", "next_operation"] * 3, "ok", "goal_complete"]
    assert [(step.arguments["key"], step.result) for step in done.output.graph_editor.steps] == [
        (each, "created") for each in keys
    ]
    # Asked for as often as it took, each under its own key.
    assert list(dict.fromkeys(scene.faulty.calls)) == [("add_node", step.operation_id) for step in edited.output.steps]


async def test_a_step_that_fails_once_works_when_it_is_tried_again(scene: Scene) -> None:
    named = key()
    scene.plans([ticket(named)])
    scene.faulty.faults = [refused("CONFLICT", "Somebody was faster.", retryable=True)]
    edited = await scene.editor.ask("Add a ticket.")
    assert edited.rules[3:] == ["failed", "retry_same", "ok", "goal_complete"]
    assert (edited.ended, len(set(scene.faulty.calls))) == (("SUCCEEDED", "DONE"), 1)
    assert await there(scene, named)


async def test_a_step_that_always_fails_ends_with_a_question_and_no_claim(scene: Scene) -> None:
    done, failing = key(), key()
    scene.plans([ticket(done), ticket(failing)])
    scene.faulty.faults = [passed, *[refused("CONFLICT", "Somebody was faster.", retryable=True)] * 3]
    asked = await scene.editor.ask("Add two tickets.")
    assert asked.rules[-2:] == ["retries_exhausted", "ask"]
    assert "Somebody was faster." in asked.run.input_request.question
    ended = await scene.editor.reply(asked, "leave it as it is")
    assert ended.ended == ("SUCCEEDED", "PARTLY")
    assert done in ended.answer
    assert failing not in ended.answer
    assert not await there(scene, failing)


MISFITS: Mapping[str, tuple[Call, str, str]] = {
    "a tool that there is not": (("make_ticket", {"key": "x"}), "unknown_tool", "make_ticket"),
    "an argument that is missing": (("add_node", {"label": "Ticket"}), "invalid_arguments", "'key' is a required"),
    "an argument of another kind": (
        ("add_node", {"label": "Ticket", "key": 7}), "invalid_arguments", "7 is not of type 'string'",
    ),
    "an argument that nobody asked for": (
        ("add_node", {"label": "Ticket", "key": "x", "graph": "other"}), "invalid_arguments", "'graph' was unexpected",
    ),
    "a label that there is not": (("add_node", {"label": "Ship", "key": "x"}), "invalid_arguments", "'Ship'"),
    "a property that there is not": (ticket("x", colour="red"), "failed", "has no property 'colour'"),
    "a value that may not be": (ticket("x", status="lost"), "failed", "must be one of: open, in progress, closed"),
    "a node that there is not": (
        ("update_props", {"label": "Ticket", "key": "none", "properties": {"status": "open"}}),
        "failed", "There is no node Ticket 'none'",
    ),
    "an edge to a node that there is not": (
        ("add_edge", {"type": "REPORTS", "from": {"label": "User", "key": "none"},
                      "to": {"label": "Ticket", "key": "none"}}),
        "failed", "There is no node User 'none'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS.keys())
async def test_a_plan_that_does_not_fit_is_made_again_once(scene: Scene, misfit: tuple[Call, str, str]) -> None:
    call, rule, told = misfit
    named = key()
    asked_for = scene.plans([call], [ticket(named)])
    edited = await scene.editor.ask("Add a ticket.")
    assert (edited.rules[2:] if rule != "failed" else edited.rules[3:]) == [
        rule, "retry", "planned", "valid", "ok", "goal_complete",
    ]  # fmt: skip
    assert (edited.ended, len(edited.output.steps)) == (("SUCCEEDED", "DONE"), 1)
    assert (
        told in read_data([each for each in asked_for if each.model == "plan"][-1].last_text)["went_wrong"]["message"]
    )

    scene.plans([call], [call])
    asked = await scene.editor.ask("Add a ticket.")
    assert asked.rules[-2:] == ["identical", "ask"]
    assert told in asked.run.input_request.question
    ended = await scene.editor.reply(asked, "leave it as it is")
    assert ended.ended == ("SUCCEEDED", "DECLINED")
    assert "Nothing was changed" in ended.answer


async def test_nobody_says_what_is_broken(scene: Scene) -> None:
    scene.limits.write_text("graph_editor: {question_lifetime_s: 0.5}")
    try:
        await scene.kill_runtime()
        unclear = {
            "intent": "mend", "complexity": "complex", "confidence": 0.2, "in_scope": True,
            "questions": ["What exactly is broken?"],
        }  # fmt: skip
        scene.model.script("parse", [Reply.tool_call("submit_goal", unclear)])
        run = await created(scene.editor.client, edit_request("My dashboard is broken. Fix it."))
        await ended(scene, run.run_id)
    finally:
        scene.limits.write_text("{}")
        scene.model.script("parse", [COMPLEX], repeat="last")
        await scene.kill_runtime()
    edited = await until_available(lambda: scene.editor.found(run.run_id))
    assert edited.rules == ["ambiguous", "ask", "expired"]
    assert edited.ended == ("NEEDS_REVIEW", "NOT_DONE")
    assert "Nobody answered in time" in edited.answer
