"""Connections that go silent between the services while a question is on its way: it is answered all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from signalbox.v1 import runs_pb2

from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from tests.fixtures.client import question
from tests.fixtures.script import ALLOW, Script, query
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.fixtures.silent_proxy import SilentProxy
from tests.fixtures.stack import AGENT_MODEL, GUARD_MODEL, Platform, World, platform

COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
NOTICED_WITHIN_S = 120.0


@dataclass(frozen=True)
class Wires:
    """Every connection of the platform that a test can silence."""

    gateway: SilentProxy
    runtime: SilentProxy
    guard: SilentProxy
    sql_executor: SilentProxy
    user_database: SilentProxy


@dataclass(frozen=True)
class Wired:
    """A platform whose services find one another through proxies."""

    signalbox: Platform
    wires: Wires


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def model() -> AsyncIterator[ScriptedModel]:
    """The model server of the wired platform."""
    async with ScriptedModel() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def wired(harbour: World, model: ScriptedModel) -> AsyncIterator[Wired]:
    async with AsyncExitStack() as stack:
        gateway, runtime, guard, sql, database = [
            await stack.enter_async_context(SilentProxy()) for _ in range(5)
        ]  # fmt: skip
        reader = urlsplit(harbour.user_database.reader_dsn)
        database.upstream = f"{reader.hostname}:{reader.port}"
        dsn = reader._replace(netloc=f"{reader.netloc.rpartition('@')[0]}@{database.address}").geturl()
        env = {
            "gateway": {"SIGNALBOX_RUNTIME_TARGET": f"ipv4:{runtime.address}"},
            "runtime": {
                "SIGNALBOX_GUARD_TARGET": f"ipv4:{guard.address}",
                "SIGNALBOX_SQL_EXECUTOR_TARGET": f"ipv4:{sql.address}",
            },
        }
        data = replace(harbour, user_database=replace(harbour.user_database, reader_dsn=dsn))
        signalbox = await stack.enter_async_context(platform(data, model=model, service_env=env))
        for name, proxy in {"gateway": gateway, "runtime": runtime, "guard": guard, "sql_executor": sql}.items():
            proxy.upstream = signalbox.stack.service(name).ready.listen
        yield Wired(signalbox, Wires(gateway, runtime, guard, sql, database))


@pytest.fixture
def script(model: ScriptedModel) -> Script:
    return Script(model)


def lose(*wires: SilentProxy) -> None:
    """Every connection that is open says nothing more; new ones work."""
    for wire in wires:
        wire.silence()
        wire.speak()


async def test_answers_come_though_each_connection_goes_silent_once(wired: Wired, script: Script) -> None:
    screening, thinking = asyncio.Event(), asyncio.Event()
    script.guard(replace(ALLOW, gate=screening))
    script.agent(replace(query(COUNT), gate=thinking))
    wires = wired.wires
    asking = asyncio.create_task(wired.signalbox.caller("27").ask(QUESTION))
    async with asyncio.timeout(NOTICED_WITHIN_S):
        await script.model.wait_for_requests(1, model=GUARD_MODEL)
        # The guard's answer is lost, and the runtime's stream of events to the gateway.
        lose(wires.guard, wires.runtime)
        screening.set()
        await script.model.wait_for_requests(1, model=AGENT_MODEL)
        # The call of the executor is lost, or its answer.
        lose(wires.sql_executor)
        thinking.set()
        asked = await asking
    assert (asked.state, asked.run.error) == ("SUCCEEDED", "")
    assert [event.sequence for event in asked.events] == list(range(1, len(asked.events) + 1))
    assert asked.events[-1].HasField("run_ended")


async def test_the_command_learns_that_its_connection_is_gone(wired: Wired, script: Script) -> None:
    screening = asyncio.Event()
    script.guard(replace(ALLOW, gate=screening))
    script.agent(Reply.text("Which devices do you mean?"))
    wire = wired.wires.gateway
    connection = Connection(wire.address, wired.signalbox.stack.token("27"))
    seen: list[runs_pb2.RunEvent] = []

    async def watch_and_lose(gateway: GatewayClient) -> None:
        async for event in gateway.execute(question(QUESTION), timeout_s=None):
            seen.append(event)
            lose(wire)

    async with open_gateway(connection) as gateway, asyncio.timeout(NOTICED_WITHIN_S):
        with pytest.raises(CliError) as gone:
            await watch_and_lose(gateway)
        assert gone.value.code is ExitCode.UNREACHABLE
        screening.set()
        last = [event async for event in gateway.watch(seen[0].run_id, seen[-1].sequence, timeout_s=None)][-1]
    assert last.HasField("run_ended")


async def test_a_query_whose_database_goes_silent_ends_and_the_next_one_is_answered(
    wired: Wired, script: Script
) -> None:
    thinking = asyncio.Event()
    script.agent(replace(query(COUNT), gate=thinking), query(COUNT))
    asking = asyncio.create_task(wired.signalbox.caller("27").ask(QUESTION))
    async with asyncio.timeout(NOTICED_WITHIN_S):
        await script.model.wait_for_requests(1, model=AGENT_MODEL)
        lose(wired.wires.user_database)
        thinking.set()
        asked = await asking
    assert asked.events[-1].HasField("run_ended")
    script.agent(query(COUNT))
    async with asyncio.timeout(NOTICED_WITHIN_S):
        again = await wired.signalbox.caller("27").ask(QUESTION)
    assert (again.state, again.run.error) == ("SUCCEEDED", "")


@pytest_asyncio.fixture(loop_scope="session")
async def lines_to_models(harbour: World, model: ScriptedModel) -> AsyncIterator[tuple[Platform, SilentProxy]]:
    """A platform whose services reach their models through one proxy, and give a call of them five seconds."""
    async with SilentProxy(urlsplit(model.base_url).netloc) as proxy:
        reached = {
            "SIGNALBOX_MODEL_BASE_URL": urlsplit(model.base_url)._replace(netloc=proxy.address).geturl(),
            "SIGNALBOX_MODEL_TIMEOUT_S": "5",
        }
        env = {"guard": reached, "runtime": reached}
        async with platform(harbour, model=model, service_env=env) as signalbox:
            yield signalbox, proxy


async def test_models_that_go_silent_are_asked_again(
    lines_to_models: tuple[Platform, SilentProxy], script: Script
) -> None:
    signalbox, line = lines_to_models
    screening, thinking = asyncio.Event(), asyncio.Event()
    script.guard(replace(ALLOW, gate=screening))
    script.agent(replace(query(COUNT), gate=thinking), query(COUNT))
    asking = asyncio.create_task(signalbox.caller("27").ask(QUESTION))
    async with asyncio.timeout(NOTICED_WITHIN_S):
        await script.model.wait_for_requests(1, model=GUARD_MODEL)
        script.guard(ALLOW)
        lose(line)
        screening.set()
        await script.model.wait_for_requests(1, model=AGENT_MODEL)
        lose(line)
        thinking.set()
        asked = await asking
    assert (asked.state, asked.run.error) == ("SUCCEEDED", "")
    assert {name for name, _ in asked.calls("wait")} == {"guard", f"model {AGENT_MODEL}"}
