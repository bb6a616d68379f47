"""Runs that are to stop: what their nodes have under way is broken off wherever it is, but for what has effects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import signalbox
from aiohttp import web
from aiohttp.test_utils import TestServer
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy
from signalbox.v1 import tools_pb2

from services.kit.models.completions import Completions, Endpoint
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.tool_client import ToolDescription
from services.runtime.engine.records import ActiveRunPolicy, RunRecord, RunState
from services.runtime.hosted.definition import HostedPolicy
from services.runtime.hosted.executor_tools import offering, tools
from services.runtime.routing.calls import noting
from services.runtime.routing.graph import AgentGraph, RoutedNode
from tests.fixtures.hosted import CALLER, HostedReplica, Joined, hosted_replica, loaded
from tests.fixtures.replica import Counting, CountingState, Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run
from tests.integration.runtime.test_token_chunks import WORDS, Trickle, said, speaking

TIMEOUT_S = 60.0
# So that nobody comes upon what is to be cancelled by looking.
NEVER_SWEEPS = 3600.0


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A model's endpoint that says three words in a stream, and no more; with whether it has."""
    spoken, never = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for word in ("There ", "are ", "four. "):
            delta = f'{{"choices": [{{"index": 0, "delta": {{"content": "{word}"}}}}]}}'
            await response.write(f"data: {delta}\n\n".encode())
        spoken.set()
        await never.wait()
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    server = TestServer(app)
    await server.start_server()
    yield f"{server.make_url('/v1')}", spoken
    never.set()
    await server.close()


class Asking(Counting):
    """Its one node asks a model."""

    def __init__(self, base_url: str) -> None:
        super().__init__(node_timeout_s=600)
        completions = Completions(Endpoint(base_url, "", 600, 0))

        async def ask(_state: Any, _context: Any) -> dict[str, Any]:
            with noting("tool", "before"):
                pass
            try:
                await ChatModel(completions, "m").ask("p", [HumanMessage("How many lights?" * 10)])
            finally:
                await completions.close()
            return {"status": "completed"}

        node = RoutedNode("count", ask, concludes=True)
        self.graph = AgentGraph("counting", CountingState, "count", (node,), node_timeout_s=600)


async def last_decision(replica: Replica, run: RunRecord) -> tuple[str, str, list[dict[str, Any]]]:
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT node, rule, calls FROM platform.decisions WHERE run_id = %s ORDER BY sequence DESC LIMIT 1",
            [run.run_id],
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2]


@pytest.mark.parametrize("where", ["here", "elsewhere", "for another run of its thread"])
async def test_a_call_of_a_model_is_broken_off_and_paid_for(
    start_replica: StartReplica, endpoint: tuple[str, asyncio.Event], where: str
) -> None:
    base_url, spoken = endpoint
    one = await start_replica(Asking(base_url), sweep_interval_s=NEVER_SWEEPS)
    other = await start_replica(Asking(base_url), sweep_interval_s=NEVER_SWEEPS)
    run, _ = await one.engine.create(new_run(thread_id="talk"))
    async with asyncio.timeout(TIMEOUT_S):
        await spoken.wait()
        if where == "for another run of its thread":
            await one.engine.create(new_run(thread_id="talk", active_run_policy=ActiveRunPolicy.CANCEL_ACTIVE))
        else:
            await (one if where == "here" else other).engine.cancel(run.run_id, run.caller)
        done = await ended(one, run)
    assert (done.state, done.stop_reason, done.outcome) == (RunState.CANCELLED, "cancelled", "cancelled")
    node, rule, calls = await last_decision(one, run)
    assert (node, rule) == ("count", "run_cancelled")
    assert [(call["name"], call["outcome"], call.get("estimated")) for call in calls] == [
        ("before", "ok", None),
        ("m", "CancelledError", True),
    ]
    # About four characters a token, of the messages as they were sent and of what had come.
    assert calls[1]["input_tokens"] in range(40, 60)
    assert calls[1]["output_tokens"] in range(4, 20)
    assert (done.spend["model_calls"], done.spend["tool_calls"]) == (1, 1)
    assert done.spend["input_tokens"] == calls[1]["input_tokens"]
    async with one.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*), max(sequence) FROM platform.run_events WHERE run_id = %s", [run.run_id]
        )
        assert await cursor.fetchone() == (done.event_count, done.event_count)


async def test_a_node_with_effects_comes_to_its_end_and_its_step_is_kept(start_replica: StartReplica) -> None:
    counting = Counting()
    gate, reached = asyncio.Event(), asyncio.Event()

    async def act(_state: Any, _context: Any) -> dict[str, Any]:
        with noting("tool", "write"):
            reached.set()
            await gate.wait()
        return {"counts": [1]}

    nodes = (RoutedNode("act", act, then="report", acts=True), RoutedNode("report", counting._report, concludes=True))
    counting.graph = AgentGraph("counting", CountingState, "act", nodes)
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    async with asyncio.timeout(TIMEOUT_S):
        await reached.wait()
        await replica.engine.cancel(run.run_id, run.caller)
        asyncio.get_running_loop().call_later(0.2, gate.set)
        done = await ended(replica, run)
    assert (done.state, done.spend["tool_calls"]) == (RunState.CANCELLED, 1)
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT payload -> 'calls' -> 0 ->> 'outcome' FROM platform.run_events"
            " WHERE run_id = %s AND kind = 'node_completed'",
            [run.run_id],
        )
        assert await cursor.fetchall() == [("ok",)]


async def stopped(replica: HostedReplica, agent: str, given: dict[str, Any], reached: Any) -> RunRecord:
    """Creates a run, cancels it once something is reached, and waits for its end."""
    run = await replica.create(agent, given)
    async with asyncio.timeout(TIMEOUT_S):
        await (reached.wait() if isinstance(reached, asyncio.Event) else asyncio.to_thread(reached.wait))
        await replica.engine.cancel(run.run_id, CALLER)
        return await replica.left_off(run)


HOSTED = HostedPolicy(node_timeout_s=600)


async def test_a_hosted_node_is_broken_off_in_a_message_which_is_withdrawn(platform_dsn: str) -> None:
    model = Trickle(gates=[asyncio.Event()])
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(model)), policy=HOSTED) as replica:
        run = await replica.create("speaker", {"messages": ["Go on."]}, chunks=True)
        events = []
        async with asyncio.timeout(TIMEOUT_S):
            async for event in replica.engine.watch(run, run.event_count, chunks=True, fresh=True):
                events.append(event)
                if said(events) == [("speak", "".join(WORDS[:2]))]:
                    await replica.engine.cancel(run.run_id, CALLER)
        done = await replica.store.get(run.run_id, CALLER)
        assert (done.state, done.stop_reason) == (RunState.CANCELLED, "cancelled")
        assert [event.kind for event in events][-3:] == ["tokens_reset", "decision", "run_ended"]
        assert said(events) == []
        [decision] = await replica.decisions(done)
        assert (decision["node"], decision["rule"]) == ("speak", "run_cancelled")
        [call] = decision["calls"]
        assert (call["name"], call["estimated"]) == ("Trickle", True)
        assert (call["input_tokens"] > 0, call["output_tokens"]) == (True, 3)
        assert (done.spend["model_calls"], done.spend["output_tokens"]) == (1, 3)


async def test_what_a_hosted_step_does_beside_an_effect_is_broken_off_and_the_effect_is_not(platform_dsn: str) -> None:
    gate, ended_well = asyncio.Event(), list[str]()
    thread_gate, all_began, began = threading.Event(), threading.Event(), list[str]()

    def begin(what: str) -> None:
        began.append(what)
        if len(began) == 3:
            all_began.set()

    @signalbox.effect
    async def send() -> str:
        begin("coroutine")
        await gate.wait()
        ended_well.append("coroutine")
        return "sent"

    @signalbox.effect
    def post() -> str:
        begin("thread")
        thread_gate.wait()
        ended_well.append("thread")
        return "posted"

    async def act(state: Joined) -> dict[str, Any]:
        del state
        await send()
        await asyncio.Event().wait()
        return {"log": ["never"]}

    def act_in_thread(state: Joined) -> dict[str, Any]:
        del state
        post()
        return {"log": [post()]}

    async def think(state: Joined) -> Joined:
        begin("beside")
        try:
            await asyncio.Event().wait()
        finally:
            ended_well.append("broken off")
            asyncio.get_running_loop().call_later(0.1, gate.set)
            asyncio.get_running_loop().call_later(0.2, thread_gate.set)
        return state

    inside = StateGraph(Joined).add_node("think", think).add_edge(START, "think")
    graph = StateGraph(Joined).add_node("act", act).add_node("thread", act_in_thread).add_node("in", inside.compile())
    for node in ("act", "thread", "in"):
        graph.add_edge(START, node)
    async with hosted_replica(platform_dsn, loaded("acting", graph), policy=HOSTED) as replica:
        try:
            done = await stopped(replica, "acting", {"log": []}, all_began)
        finally:
            gate.set()
            thread_gate.set()
        assert (done.state, done.spend["tool_calls"]) == (RunState.CANCELLED, 2)
        # The second of the thread never begins.
        assert ended_well == ["broken off", "coroutine", "thread"]
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(
                "SELECT name, result IS NOT NULL FROM platform.effects WHERE run_id = %s ORDER BY name", [done.run_id]
            )
            assert await cursor.fetchall() == [("post", True), ("send", True)]


async def test_an_effect_comes_to_its_end_with_all_that_it_calls_though_another_call_is_refused(
    platform_dsn: str,
) -> None:
    began, cancelled, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @signalbox.effect
    async def note() -> str:
        return "noted"

    @signalbox.effect
    async def send() -> None:
        began.set()
        await refused.wait()
        await note()

    async def go_on() -> None:
        await cancelled.wait()
        try:
            await note()
        finally:
            asyncio.get_running_loop().call_later(0.2, refused.set)

    async def act(state: Joined) -> dict[str, Any]:
        del state
        await asyncio.gather(send(), go_on())
        return {"log": ["never"]}

    graph = StateGraph(Joined).add_node("act", act).add_edge(START, "act")
    async with hosted_replica(platform_dsn, loaded("acting", graph), policy=HOSTED) as replica:
        run = await replica.create("acting", {"log": []})
        async with asyncio.timeout(TIMEOUT_S):
            await began.wait()
            await replica.engine.cancel(run.run_id, CALLER)
            cancelled.set()
            done = await replica.left_off(run)
        assert (done.state, done.stop_reason) == (RunState.CANCELLED, "cancelled")
        [decision] = await replica.decisions(done)
        assert [(call["name"], call["outcome"]) for call in decision["calls"]] == [("note", "ok"), ("send", "ok")]
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(
                "SELECT name, result IS NOT NULL FROM platform.effects WHERE run_id = %s ORDER BY name", [done.run_id]
            )
            assert await cursor.fetchall() == [("note", True), ("send", True)]


class Executors:
    """One executor, whose calls go on until they are cancelled or let go on."""

    def __init__(self) -> None:
        self.began, self.gate = asyncio.Event(), asyncio.Event()
        self.ended = list[str]()

    def tools(self, _executor: Any) -> Executors:
        return self

    async def call(self, _context: Any, tool: str, _arguments: Any, _key: str) -> tools_pb2.CallToolResponse:
        self.began.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append(tool)
        return tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(text="done"))


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_call_of_an_executor_that_writes_comes_to_its_end_and_the_ledger_says_how(
    platform_dsn: str, *, read_only: bool, in_thread: bool
) -> None:
    described = ToolDescription("set", "Sets it.", "", {"type": "object", "properties": {}}, read_only=read_only)
    with offering({"sql_executor": {"set": described}}):
        [tool] = tools("sql_executor", {})
    executors = Executors()

    async def act(state: Joined) -> dict[str, Any]:
        return {"log": [await tool.ainvoke({}), await tool.ainvoke({**state})]}

    def act_in_thread(state: Joined) -> dict[str, Any]:
        return {"log": [tool.invoke({}), tool.invoke({**state})]}

    graph = StateGraph(Joined).add_node("act", act_in_thread if in_thread else act).add_edge(START, "act")
    async with hosted_replica(platform_dsn, loaded("acting", graph), policy=HOSTED, connections=executors) as replica:
        run = await replica.create("acting", {"log": []})
        async with asyncio.timeout(TIMEOUT_S):
            await executors.began.wait()
            await replica.engine.cancel(run.run_id, CALLER)
            asyncio.get_running_loop().call_later(0.2, executors.gate.set)
            done = await replica.left_off(run)
        assert done.state is RunState.CANCELLED
        [decision] = await replica.decisions(done)
        [call] = decision["calls"]
        assert (call["name"], call["service"]) == ("set", "sql_executor")
        if not read_only:
            assert (call["outcome"], executors.ended) == ("ok", ["set"])
        elif not in_thread:
            assert (call["outcome"], executors.ended) == ("cut", ["cancelled"])


@pytest.mark.parametrize("place", ["thread", "path", "swallowing", "raising"])
async def test_a_hosted_graph_is_broken_off_wherever_it_is(platform_dsn: str, place: str) -> None:
    reached, release = threading.Event(), threading.Event()

    async def work(state: Joined) -> dict[str, Any]:
        del state
        if place == "path":
            return {"log": ["done"]}
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if place == "raising":
                raise ValueError("on the way out") from None
            return {"log": ["swallowed"]}
        return {}

    def block(state: Joined) -> dict[str, Any]:
        reached.set()
        release.wait()
        return {"log": state["log"]}

    async def path(state: Joined) -> str:
        del state
        if place == "path":
            reached.set()
            await asyncio.Event().wait()
        return "after"

    retries = RetryPolicy(initial_interval=600, jitter=False, retry_on=ConnectionError)
    graph = StateGraph(Joined).add_node("work", block if place == "thread" else work, retry_policy=retries)
    graph.add_node("after", lambda _: {"log": ["after"]}).add_edge(START, "work")
    graph.add_conditional_edges("work", path, ["after"])
    try:
        async with hosted_replica(platform_dsn, loaded("placed", graph), policy=HOSTED) as replica:
            done = await stopped(replica, "placed", {"log": []}, reached)
            assert (done.state, done.stop_reason) == (RunState.CANCELLED, "cancelled")
            assert "after" not in await replica.steps(done)
    finally:
        release.set()
