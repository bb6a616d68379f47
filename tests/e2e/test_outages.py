"""Parts that are away are waited for; for too long, and the run ends and says what was away. The next one works.

These tests have a platform of their own, with little patience and services that they kill.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import pytest_asyncio
from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2

from services.cli.exit_codes import ExitCode, exit_code_of
from services.local.processes import ServiceProcess
from tests.fixtures.client import Asked, RunClient, question
from tests.fixtures.ledger import check_ledger, plain
from tests.fixtures.script import ALLOW, ANSWER, Script, query
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, Platform, World, platform

COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
ALLOWED = "screen_question: allowed -> agent"
ASKED_TOOLS = "agent: tool_calls -> tools"
QUERIED = "tools: query_executed -> format_answer"
Away = Callable[[ServiceProcess], AbstractAsyncContextManager[None]]
# Long enough for a machine that has other things to do: these services answer the next question too.
MODEL_TIMEOUT_S = 4.0
CALL_TIMEOUT_S = 8.0
# For runs that wait in vain, and for those whose model takes all the time that it may.
BRIEF = caller_pb2.Budget(wall_time_s=3)
PATIENT = caller_pb2.Budget(wall_time_s=6)
AGENT = f"model {AGENT_MODEL}"
IMPATIENT = {
    "guard": {"SIGNALBOX_MODEL_TIMEOUT_S": f"{MODEL_TIMEOUT_S}"},
    "runtime": {
        "SIGNALBOX_MODEL_TIMEOUT_S": f"{MODEL_TIMEOUT_S}",
        "SIGNALBOX_MODEL_RETRIES": "1",
        "SIGNALBOX_TOOL_TIMEOUT_S": f"{CALL_TIMEOUT_S}",
        "SIGNALBOX_GUARD_TIMEOUT_S": f"{CALL_TIMEOUT_S}",
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def model() -> AsyncIterator[ScriptedModel]:
    """The model server of the impatient platform."""
    async with ScriptedModel() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def impatient(harbour: World, model: ScriptedModel) -> AsyncIterator[Platform]:
    async with platform(harbour, model=model, service_env=IMPATIENT) as running:
        yield running


@pytest.fixture
def caller(impatient: Platform) -> RunClient:
    return impatient.caller("27")


@asynccontextmanager
async def killed(service: ServiceProcess) -> AsyncIterator[None]:
    """Ends a service at once, and starts it again at the same address afterwards."""
    await service.kill()
    try:
        yield
    finally:
        await service.start()


@asynccontextmanager
async def frozen(service: ServiceProcess) -> AsyncIterator[None]:
    """Stops a service from doing anything, while it keeps its connections."""
    service.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        service.signal(signal.SIGCONT)


@asynccontextmanager
async def unreachable(model: ScriptedModel) -> AsyncIterator[None]:
    """Closes a model server's port, so that connections are refused."""
    await model.__aexit__(None, None, None)
    try:
        yield
    finally:
        await model.__aenter__()


def check_failed(asked: Asked, node: str, dependency: str, *causes: str) -> None:
    """Checks that a run failed at a node because of what was away, by a decision, and says so in words."""
    assert (asked.state, asked.run.stop_reason) == ("FAILED", "node_failed")
    failed = asked.decisions[-1]
    assert (failed.node, failed.rule, failed.destination) == (node, "node_failed", "__end__")
    assert failed.router == f"data_chat.route_after_{node}"
    facts = plain(failed.facts)
    assert (facts["error_reason"], facts["dependency"]) == ("DEPENDENCY_AWAY", dependency)
    assert facts["cause"] in causes
    assert asked.run.error == f"the {dependency} is away ({facts['cause']}); try again later"
    check_ledger(asked)


async def until_waiting(caller: RunClient, run: runs_pb2.Run, dependency: str) -> None:
    """Watches until a run waits for something that is away, and checks that it says so."""
    async for event in caller.watch(run.run_id):
        if event.state_changed.waiting_for:
            break
    told = event.state_changed
    assert (told.state, told.waiting_for) == (runs_pb2.RUN_STATE_PENDING, dependency)
    assert told.cause
    assert told.HasField("retry_time")


async def check_answered(caller: RunClient, run: runs_pb2.Run, dependency: str) -> Asked:
    """Checks that a run has its answer, and that its ledger shows what it waited for."""
    asked = await caller.wait(run.run_id)
    assert (asked.state, asked.output.answer) == ("SUCCEEDED", ANSWER)
    assert asked.route == [ALLOWED, ASKED_TOOLS, QUERIED]
    assert {name for name, _ in asked.calls("wait")} == {dependency}
    check_ledger(asked)
    return asked


async def check_works(caller: RunClient, script: Script) -> None:
    """Checks that the platform answers again."""
    script.guard(ALLOW)
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION)
    assert (asked.state, asked.output.answer) == ("SUCCEEDED", ANSWER)
    check_ledger(asked)


async def test_a_model_that_refuses_connections(caller: RunClient, model: ScriptedModel, script: Script) -> None:
    async with unreachable(model):
        asked = await caller.ask(QUESTION, budget=BRIEF)

    check_unscreened(asked, script, "connection")  # the guard is the first to ask its model
    assert "may be asked again" in asked.run.error
    await check_works(caller, script)


async def test_an_agents_model_that_is_down(impatient: Platform, model: ScriptedModel, script: Script) -> None:
    admin = impatient.caller("1", ["admin"])  # not screened: the agent's model is the first to be asked
    async with unreachable(model):
        asked = await admin.ask(QUESTION, budget=BRIEF)

    assert asked.route == ["screen_question: admin_bypass -> agent", "agent: node_failed -> __end__"]
    check_failed(asked, "agent", AGENT, "connection")
    await check_works(admin, script)


async def test_an_agents_model_that_fails_for_ever(impatient: Platform, script: Script) -> None:
    admin = impatient.caller("1", ["admin"])
    script.agent_always(Reply.http_error(500))
    asked = await admin.ask(QUESTION, budget=BRIEF)

    assert asked.route == ["screen_question: admin_bypass -> agent", "agent: node_failed -> __end__"]
    check_failed(asked, "agent", AGENT, "http_500")


async def test_an_agents_model_that_is_too_slow(impatient: Platform, script: Script) -> None:
    admin = impatient.caller("1", ["admin"])
    script.agent_always(query(COUNT).after(asyncio.Event()))
    asked = await admin.ask(QUESTION, budget=BRIEF)

    assert asked.decisions[-1].node_elapsed_ms >= MODEL_TIMEOUT_S * 1000
    check_failed(asked, "agent", AGENT, "timeout")


async def test_an_agents_model_that_comes_back(caller: RunClient, script: Script) -> None:
    gate = asyncio.Event()
    script.agent(query(COUNT).after(gate))
    run = await caller.create(question(QUESTION))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)
    async with unreachable(script.model):
        await until_waiting(caller, run, AGENT)
    script.agent(query(COUNT))
    await check_answered(caller, run, AGENT)


async def test_a_wording_model_that_is_down_does_not_hide_the_rows(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    script.format(Reply.http_error(503))
    asked = await caller.ask(QUESTION, want_csv=True)

    assert asked.route == [ALLOWED, ASKED_TOOLS, QUERIED]
    assert (asked.state, asked.output.grounding) == ("SUCCEEDED", data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA)
    [[count]] = asked.values
    assert asked.output.sql_query
    assert asked.output.csv == f"devices\r\n{count}\r\n"
    assert "could not be put into words" in asked.output.answer
    assert str(count) in asked.output.answer
    assert asked.calls("model")[-1] == (FORMAT_MODEL, "DEPENDENCY_AWAY")
    check_ledger(asked)


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Reply.http_error(500), "http_500"),
        (ALLOW.delayed(600), "timeout"),
        (Reply.raw("{}"), "no_choice"),
        (Reply.text("I think this is fine, ALLOW it"), "nonsense"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_guards_model_that_is_of_no_use_is_no_block(
    caller: RunClient, script: Script, reply: Reply, cause: str
) -> None:
    script.guard(reply)
    asked = await caller.ask(QUESTION, budget=PATIENT if cause == "timeout" else BRIEF)

    check_unscreened(asked, script, cause)
    assert "may be asked again" in asked.run.error
    await check_works(caller, script)


async def test_what_the_guards_endpoint_refuses_is_told_in_its_words_and_not_waited_for(
    caller: RunClient, script: Script
) -> None:
    script.guard(Reply.http_error(401, "this key was withdrawn"))
    asked = await caller.ask(QUESTION)

    check_unscreened(asked, script, "http_401", refused=True)
    assert "this key was withdrawn" in asked.run.error
    assert asked.calls("wait") == []
    assert script.asked == ["guard"]
    await check_works(caller, script)


@pytest.mark.parametrize(("away", "cause"), [(killed, "UNAVAILABLE"), (frozen, "DEADLINE_EXCEEDED")])
async def test_a_guard_that_is_away_is_no_block(
    impatient: Platform, caller: RunClient, script: Script, away: Away, cause: str
) -> None:
    async with away(impatient.stack.service("guard")):
        asked = await caller.ask(QUESTION, budget=BRIEF)

    check_unscreened(asked, script, cause)
    assert "may be asked again" in asked.run.error
    await check_works(caller, script)


async def test_a_guard_that_comes_back(impatient: Platform, caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    async with killed(impatient.stack.service("guard")):
        run = await caller.create(question(QUESTION))
        await until_waiting(caller, run, "guard")
        assert script.asked == []
    await check_answered(caller, run, "guard")


def check_unscreened(asked: Asked, script: Script, cause: str, *, refused: bool = False) -> None:
    """Checks that a question that could not be screened was neither let through nor called blocked.

    Nothing was found wrong with it, but to ask again helps only where the guard's model does not say no.
    """
    assert (asked.state, asked.run.stop_reason) == ("FAILED", "guard_unavailable")
    assert asked.run.retryable is not refused
    assert asked.route == ["screen_question: guard_unavailable -> __end__"]
    assert plain(asked.decisions[0].facts) == {
        "screening": "unscreenable" if refused else "unscreened",
        "reason": cause,
    }
    assert asked.output.grounding == data_chat_pb2.GROUNDING_NOT_CHECKED
    assert not asked.output.answer
    assert "agent" not in script.asked
    assert not asked.output.HasField("rows")
    assert exit_code_of(asked.run) is ExitCode.GUARD_UNAVAILABLE
    check_ledger(asked)


async def test_an_executor_that_stays_away(impatient: Platform, script: Script) -> None:
    admin = impatient.caller("1", ["admin"])
    async with killed(impatient.stack.service("sql_executor")):
        asked = await admin.ask(QUESTION, budget=BRIEF)

    assert script.asked == []
    check_failed(asked, "agent", "sql_executor", "UNAVAILABLE")
    await check_works(admin, script)


@pytest.mark.parametrize("away", [killed, frozen])
async def test_an_executor_that_goes_away_between_two_calls_and_comes_back(
    impatient: Platform, caller: RunClient, script: Script, away: Away
) -> None:
    gate = asyncio.Event()
    script.agent(query(COUNT).after(gate))
    run = await caller.create(question(QUESTION))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)
    async with away(impatient.stack.service("sql_executor")):
        gate.set()
        await until_waiting(caller, run, "sql_executor")
    asked = await check_answered(caller, run, "sql_executor")
    assert asked.calls("tool") == [("get_few_shot_examples", "ok"), ("execute_db_query", "ok")]
