"""Parts that are down or slow: the run still ends, says what failed, and the next one works once the part is back.

These tests have a platform of their own, with little patience and services that they kill.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from services.cli.local.processes import ServiceProcess
from tests.fixtures.client import Asked, RunClient, question
from tests.fixtures.ledger import check_ledger, plain
from tests.fixtures.ports import place_kept, reserved
from tests.fixtures.script import ALLOW, ANSWER, Script, query
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.fixtures.stack import AGENT_MODEL, Platform, World, platform

COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
ALLOWED = "screen_question: allowed -> agent"
ASKED_TOOLS = "agent: tool_calls -> tools"
QUERIED = "tools: query_executed -> format_answer"
Away = Callable[[ServiceProcess], AbstractAsyncContextManager[None]]
# Long enough for a machine that has other things to do: these services answer the next question too.
MODEL_TIMEOUT_S = 4.0
CALL_TIMEOUT_S = 8.0
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
    with place_kept(service):
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
    address = urlsplit(model.base_url).netloc
    await model.__aexit__(None, None, None)
    with reserved(address):
        try:
            yield
        finally:
            await model.__aenter__()


def check_failed(asked: Asked, node: str, reason: str, *words: str) -> None:
    """Checks that a run failed at a node, by a decision, and says so in words."""
    assert (asked.state, asked.run.stop_reason) == ("FAILED", "node_failed")
    for word in (*words, "try again later"):
        assert word in asked.run.error
    failed = asked.decisions[-1]
    assert (failed.node, failed.rule, failed.destination) == (node, "node_failed", "__end__")
    assert failed.router == f"data_chat.route_after_{node}"
    assert plain(failed.facts) == {"error_reason": reason}
    check_ledger(asked)


async def check_works(caller: RunClient, script: Script) -> None:
    """Checks that the platform answers again."""
    script.guard(ALLOW)
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION)
    assert (asked.state, asked.output.answer) == ("SUCCEEDED", ANSWER)
    check_ledger(asked)


async def test_a_model_that_refuses_connections(caller: RunClient, model: ScriptedModel, script: Script) -> None:
    async with unreachable(model):
        asked = await caller.ask(QUESTION)

    check_unscreened(asked, script)  # the guard is the first to ask its model
    await check_works(caller, script)


async def test_an_agents_model_that_is_down(impatient: Platform, model: ScriptedModel, script: Script) -> None:
    admin = impatient.caller("1", ["admin"])  # not screened: the agent's model is the first to be asked
    async with unreachable(model):
        asked = await admin.ask(QUESTION)

    assert asked.route == ["screen_question: admin_bypass -> agent", "agent: node_failed -> __end__"]
    assert asked.calls("model") == [(AGENT_MODEL, "MODEL_FAILED")]
    check_failed(asked, "agent", "MODEL_FAILED", AGENT_MODEL, "did not answer")
    await check_works(admin, script)


async def test_an_agents_model_that_fails_for_ever(caller: RunClient, script: Script) -> None:
    script.agent_always(Reply.http_error(500))
    asked = await caller.ask(QUESTION)

    assert script.asked == ["guard", "agent", "agent"]  # one repeat, then it is a failure
    assert asked.route == [ALLOWED, "agent: node_failed -> __end__"]
    check_failed(asked, "agent", "MODEL_FAILED", AGENT_MODEL, "did not answer")


async def test_an_agents_model_that_is_too_slow(caller: RunClient, script: Script) -> None:
    script.agent_always(query(COUNT).after(asyncio.Event()))
    asked = await caller.ask(QUESTION)

    assert asked.decisions[-1].node_elapsed_ms >= MODEL_TIMEOUT_S * 1000
    assert asked.route == [ALLOWED, "agent: node_failed -> __end__"]
    check_failed(asked, "agent", "MODEL_FAILED", AGENT_MODEL, "did not answer")


async def test_a_wording_model_that_is_down_does_not_hide_the_rows(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    script.format(Reply.http_error(503))
    asked = await caller.ask(QUESTION, want_csv=True)

    assert asked.route == [ALLOWED, ASKED_TOOLS, QUERIED, "format_answer: node_failed -> __end__"]
    assert len(asked.values) == 1
    assert asked.output.sql_query
    assert asked.output.csv.startswith("devices")
    assert not asked.output.answer
    check_failed(asked, "format_answer", "MODEL_FAILED", "scripted-format")


@pytest.mark.parametrize("reply", [Reply.http_error(500), ALLOW.delayed(600), Reply.raw("{}")])
async def test_a_guards_model_that_is_of_no_use_blocks(caller: RunClient, script: Script, reply: Reply) -> None:
    script.guard(reply)
    asked = await caller.ask(QUESTION)

    check_unscreened(asked, script)
    assert asked.run.spend.model_calls == 1
    await check_works(caller, script)


@pytest.mark.parametrize("away", [killed, frozen])
async def test_a_guard_that_is_away_blocks(impatient: Platform, caller: RunClient, script: Script, away: Away) -> None:
    async with away(impatient.stack.service("guard")):
        asked = await caller.ask(QUESTION)

    check_unscreened(asked, script)
    assert asked.calls("guard") == [("screen", "DEADLINE_EXCEEDED")]  # it was waited for, in vain
    await check_works(caller, script)


def check_unscreened(asked: Asked, script: Script) -> None:
    """Checks that a question that could not be screened was not let through."""
    assert (asked.state, asked.run.stop_reason) == ("SUCCEEDED", "blocked")
    assert "could not be checked" in asked.output.answer
    assert "try again later" in asked.output.answer
    assert asked.route == ["screen_question: blocked -> __end__"]
    assert plain(asked.decisions[0].facts) == {"screening": "blocked", "reason": "guard_unavailable"}
    assert "agent" not in script.asked
    assert not asked.output.HasField("rows")
    check_ledger(asked)


async def test_an_executor_that_is_down(impatient: Platform, caller: RunClient, script: Script) -> None:
    async with killed(impatient.stack.service("sql_executor")):
        asked = await caller.ask(QUESTION)

    assert script.asked == ["guard"]
    assert asked.route == [ALLOWED, "agent: node_failed -> __end__"]
    check_failed(asked, "agent", "SERVICE_FAILED", "SQL executor", "DEADLINE_EXCEEDED")
    await check_works(caller, script)


@pytest.mark.parametrize("away", [killed, frozen])
async def test_an_executor_that_goes_away_between_two_calls(
    impatient: Platform, caller: RunClient, script: Script, away: Away
) -> None:
    gate = asyncio.Event()
    script.agent(query(COUNT).after(gate))
    run = await caller.create(question(QUESTION))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)
    async with away(impatient.stack.service("sql_executor")):
        gate.set()
        asked = await caller.wait(run.run_id)

    assert asked.route == [ALLOWED, ASKED_TOOLS, "tools: node_failed -> __end__"]
    assert asked.calls("tool") == [("get_few_shot_examples", "ok"), ("execute_db_query", "DEADLINE_EXCEEDED")]
    check_failed(asked, "tools", "SERVICE_FAILED", "SQL executor", "execute_db_query")
    await check_works(caller, script)
