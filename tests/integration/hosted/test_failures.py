"""Hosted graphs whose nodes fail, hang, cost too much or grow: runs end by name, with their steps and their cost."""

from __future__ import annotations

import asyncio
import concurrent.futures
import operator
import threading
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict, cast

import httpx
import pytest
import signalbox
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, NodeError
from langgraph.graph import START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from pydantic import Field

from services.kit.identity.caller import Caller
from services.runtime.engine.records import RunState
from services.runtime.engine.saver import WRITES_WAIT_S, RunSaver
from services.runtime.errors import DatabaseAway
from services.runtime.hosted.definition import HostedPolicy, PinnedHosted
from services.runtime.hosted.screening import admit
from services.runtime.hosted.session import current_session
from services.runtime.routing.recorder import StepRecord
from services.runtime.routing.run_context import RunContext
from tests.fixtures.hosted import (
    CALLER,
    FOLDER,
    Answers,
    HostedReplica,
    Joined,
    hosted_replica,
    loaded,
    output_of,
    ways,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_node_that_leaves_its_graph_keeps_its_step(replica: HostedReplica) -> None:
    run = await replica.run("leaving", {"log": []})
    # As LangGraph has it: what else the graph inside has changed goes no farther.
    assert output_of(run)["log"] == ["left", "after"]
    assert await replica.steps(run) == ["desk/first", "desk/leave", "desk", "after"]
    assert ways(await replica.decisions(run)) == [("desk/leave", "after", "command")]


async def test_a_node_that_raises_ends_the_run_with_its_step_and_its_cost(replica: HostedReplica) -> None:
    run = await replica.run("failing", {})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert run.error.startswith("the node 'fail' raised ValueError at kinds.py:")
    assert "a secret" not in run.error
    assert (run.spend["model_calls"], run.spend["input_tokens"]) == (1, 10)
    assert await replica.steps(run) == ["begin", "fail"]
    [decision] = await replica.decisions(run)
    assert (decision["rule"], decision["facts"]) == ("node_failed", {"error_reason": "ValueError"})


async def test_what_would_end_the_process_ends_its_run(replica: HostedReplica) -> None:
    for place, last in (
        ("node", "leave"),
        ("panic", "leave"),
        ("leave_by_tool", "tools"),
        ("panic_by_tool", "tools"),
        ("leave_by_coroutine", "tools"),
        ("path", "tools"),
    ):
        run = await replica.run("exiting", {"messages": [], "place": place})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed"), place
        assert "raised NodeExited at kinds.py:" in run.error
        assert (await replica.steps(run))[-1] == last


async def test_what_nodes_change_in_place_is_there_when_they_go_on(platform_dsn: str) -> None:
    class Notes(TypedDict, total=False):
        items: list[dict[str, int]]
        by_name: dict[str, dict[str, int]]
        messages: Annotated[list[AIMessage], operator.add]
        found: list[str]

    def make(state: Notes) -> dict[str, Any]:
        del state
        numbers = range(6)
        return {
            "items": [{"number": number} for number in numbers],
            "by_name": {str(number): {"number": number} for number in numbers},
            "messages": [AIMessage(str(number)) for number in numbers],
            "found": [str(number) for number in numbers],
        }

    def change(state: Notes) -> dict[str, Any]:
        state["items"][1]["number"] = 10
        state["by_name"]["2"]["number"] = 20
        state["messages"][3].content = "thirty"
        state["found"].append("more")
        return {**state, "messages": [AIMessage("more")]}

    def told(state: Notes) -> dict[str, Any]:
        interrupt("Go on?")
        said = [message.text for message in state["messages"]]
        return {"found": [str(state["items"]), str(state["by_name"]), *said, *state["found"]]}

    graph = StateGraph(Notes).add_node("make", make).add_node("change", change).add_node("told", told)
    graph.add_edge(START, "make").add_edge("make", "change").add_edge("change", "told")
    alone = {"configurable": {"thread_id": "alone"}}
    plain = graph.compile(checkpointer=InMemorySaver())
    await plain.ainvoke({}, cast(RunnableConfig, alone))
    expected = await plain.ainvoke(Command(resume="yes"), cast(RunnableConfig, alone))
    async with hosted_replica(platform_dsn, loaded("notes", graph)) as replica:
        run = await replica.answer(await replica.run("notes", {}), "yes")
    assert output_of(run)["found"] == expected["found"]
    assert {"thirty", "more"} < set(expected["found"])


async def test_attempts_of_a_node_that_is_retried_are_paid_for(replica: HostedReplica) -> None:
    run = await replica.run("mended", {})
    assert (run.state, run.spend["model_calls"]) == (RunState.SUCCEEDED, 2)
    assert await replica.steps(run) == ["try"]


async def test_a_node_is_tried_again_in_a_graph_that_keeps_no_checkpoints(platform_dsn: str) -> None:
    tries: list[str] = []

    def refuse_once(state: Answers) -> dict[str, Any]:
        del state
        tries.append("one")
        if len(tries) == 1:
            raise ConnectionError("as asked")
        return {"answers": [1]}

    inside = StateGraph(Answers)
    inside.add_node("one", refuse_once, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.01))
    around = StateGraph(Answers).add_node("inside", inside.add_edge(START, "one").compile(checkpointer=False))
    async with hosted_replica(platform_dsn, loaded("again", around.add_edge(START, "inside"))) as replica:
        run = await replica.run("again", {"answers": []})
    assert (run.state, output_of(run), len(tries)) == (RunState.SUCCEEDED, {"answers": [1]}, 2), run.error


async def test_a_packet_keeps_the_limit_of_its_own(platform_dsn: str) -> None:
    async def wait(state: Answers) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"answers": state["answers"]}

    graph = StateGraph(Answers).add_node("wait", wait)
    graph.add_conditional_edges(START, lambda state: [Send("wait", state, timeout=0.05)], ["wait"])
    async with hosted_replica(platform_dsn, loaded("packet", graph)) as replica:
        run = await replica.run("packet", {"answers": []})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert "NodeTimeoutError" in run.error


async def test_what_is_taken_from_a_cache_is_a_step_of_its_run_that_cost_nothing(platform_dsn: str) -> None:
    model, cache = FakeListChatModel(responses=["It is done."]), InMemoryCache[Any]()

    def answering(words: str) -> StateGraph[Any, Any, Any, Any]:
        async def ask(state: Answers) -> dict[str, Any]:
            del state
            return {"answers": [f"{words} {(await model.ainvoke('?')).content}"]}

        def leave(state: Answers) -> dict[str, Any]:
            del state
            return {"answers": []}

        graph = StateGraph(Answers).add_node("ask", ask, cache_policy=CachePolicy()).add_node("leave", leave)
        graph.add_edge(START, "ask")
        return graph.add_conditional_edges(
            "ask", lambda state: "leave" if state["answers"] else "ask", ["leave", "ask"]
        )

    # One cache of both, as a folder may have it; what was found for one caller is not told another.
    graphs = [loaded(words, answering(words).compile(cache=cache)) for words in ("well", "so")]
    runs = []
    async with hosted_replica(platform_dsn, *graphs) as replica:
        others = Caller("28"), Caller("27", frozenset({"analyst"})), Caller("27", claims={"tenant": "a"})
        for name, caller in (("well", CALLER), ("well", CALLER), ("so", CALLER), *(("well", each) for each in others)):
            run = await replica.run(name, {"answers": []}, caller=caller)
            assert await replica.steps(run) == ["ask", "leave"], run.error
            [decision] = await replica.decisions(run)
            runs.append((output_of(run)["answers"], run.spend["model_calls"], decision))
    assert [(answers, calls) for answers, calls, _ in runs] == [
        (["well It is done."], 1),
        (["well It is done."], 0),
        (["so It is done."], 1),
        *[(["well It is done."], 1)] * 3,
    ]
    assert len({decision["decision_id"] for _, _, decision in runs}) == 6
    remarks = [decision["decided"].get("remark", "") for _, _, decision in runs]
    assert ["from the graph's cache" in each for each in remarks] == [False, True, False, False, False, False]


async def test_what_an_endpoint_had_cached_is_told_with_its_call(platform_dsn: str) -> None:
    usage = {"input_tokens": 90, "output_tokens": 2, "total_tokens": 92, "input_token_details": {"cache_read": 80}}
    said = AIMessage("It is done.", usage_metadata=cast(UsageMetadata, usage))

    async def ask(state: Answers) -> dict[str, Any]:
        del state
        return {"answers": [(await FakeMessagesListChatModel(responses=[said]).ainvoke("?")).text]}

    graph = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("cached", graph)) as replica:
        run = await replica.run("cached", {"answers": []})
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(
                "SELECT payload -> 'calls' FROM platform.run_events WHERE run_id = %s AND kind = 'node_completed'",
                [run.run_id],
            )
            [[[call]]] = await cursor.fetchall()
    assert (call["input_tokens"], call["cached_tokens"], call["output_tokens"]) == (90, 80, 2)


async def test_state_that_nobody_could_read_again_is_refused_when_it_is_saved(replica: HostedReplica) -> None:
    run = await replica.run("odd_state", {})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert "Unreadable" in run.error


async def test_the_budget_is_looked_at_before_each_call(replica: HostedReplica) -> None:
    run = await replica.run("calculator", {"messages": ["Add up."], "wanted": 2}, budget={"model_calls": 2})
    assert (run.state, run.stop_reason) == (RunState.NEEDS_REVIEW, "budget_exhausted")
    assert run.spend["model_calls"] == 2
    last = (await replica.decisions(run))[-1]
    assert (last["rule"], last["facts"]) == ("budget_exhausted", {"budget_spent": "model_calls"})
    # What it had brought by then is there to be looked at.
    assert len(output_of(run)["messages"]) == 5


async def test_effects_at_once_are_held_to_the_budget(platform_dsn: str) -> None:
    sent: list[int] = []

    @signalbox.effect
    async def send(number: int) -> None:
        await asyncio.sleep(0.01)
        sent.append(number)

    async def ask(state: Answers) -> dict[str, Any]:
        del state
        told = await asyncio.gather(*map(send, range(5)), return_exceptions=True)
        raise next(error for error in told if error is not None)

    builder = StateGraph(Answers).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("sender", builder)) as replica:
        run = await replica.run("sender", {"answers": []}, budget={"tool_calls": 2})
        assert (run.state, run.stop_reason) == (RunState.NEEDS_REVIEW, "budget_exhausted")
        assert (len(sent), run.spend["tool_calls"]) == (2, 2)


async def test_a_run_that_takes_too_many_steps_ends(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, folder=FOLDER, policy=HostedPolicy(max_steps=3)) as replica:
        run = await replica.run("calculator", {"messages": ["Add up."]})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "recursion_limit")


async def test_a_graph_keeps_the_limit_that_it_was_given_with_its_config(platform_dsn: str) -> None:
    graph = StateGraph(Joined).add_node("again", lambda _: {"log": ["again"]}).add_edge(START, "again")
    graph.add_conditional_edges("again", lambda _: "again", ["again"])
    limited = graph.compile().with_config({"recursion_limit": 4})
    async with hosted_replica(platform_dsn, loaded("limited", limited)) as replica:
        run = await replica.run("limited", {"log": []})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "recursion_limit")
        assert await replica.steps(run) == ["again"] * 4


async def test_nodes_that_block_for_good_leave_room_for_others(platform_dsn: str) -> None:
    release = threading.Event()
    graph = StateGraph(Joined).add_node(
        "hang", lambda state: release.wait() and state if state["log"] else {"log": ["ok"]}
    )
    brought = loaded("hanging", graph.add_edge(START, "hang"))
    policy = HostedPolicy(node_timeout_s=1)
    try:
        async with hosted_replica(platform_dsn, brought, policy=policy, threads=2) as replica:
            hung = await asyncio.gather(*(replica.run("hanging", {"log": ["hang"]}) for _ in range(3)))
            assert {(run.state, run.stop_reason) for run in hung} == {(RunState.FAILED, "node_failed")}
            assert "the node 'hang' raised NODE_TIMED_OUT" in hung[0].error
            assert output_of(await replica.run("hanging", {"log": []}))["log"] == ["ok"]
    finally:
        release.set()


async def test_a_step_that_changes_too_much_of_the_state_ends_its_run(platform_dsn: str) -> None:
    graph = StateGraph(Joined).add_node("grow", lambda _: {"log": ["x" * 20_000]}).add_edge(START, "grow")
    policy = HostedPolicy(max_step_bytes=10_000)
    async with hosted_replica(platform_dsn, loaded("growing", graph), policy=policy) as replica:
        run = await replica.run("growing", {"log": []})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
        assert run.error.endswith("the limit max_step_bytes is 10,000")
        assert await replica.steps(run) == ["grow"]


async def test_results_of_effects_are_held_to_a_size(platform_dsn: str) -> None:
    @signalbox.effect
    async def print_out(size: int) -> str:
        return "x" * size

    async def work(state: Joined) -> dict[str, Any]:
        await print_out(int(state["log"][0]))
        return {"log": []}

    graph = StateGraph(Joined).add_node("work", work).add_edge(START, "work")
    policy = HostedPolicy(max_step_bytes=10_000)
    async with hosted_replica(platform_dsn, loaded("printer", graph), policy=policy) as replica:
        run = await replica.run("printer", {"log": ["20000"]})
        assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
        assert "an effect has a result of 20,0" in run.error
        run = await replica.run("printer", {"log": ["9000"]})
        assert run.state is RunState.SUCCEEDED, run.error


class Away(FakeListChatModel):
    """A model whose endpoint is away at first."""

    asked: list[int] = Field(default_factory=list)

    def _call(self, *arguments: Any, **named: Any) -> str:
        self.asked.append(1)
        if len(self.asked) < 3:
            raise httpx.ConnectError("refused")
        return super()._call(*arguments, **named)


async def test_a_model_whose_endpoint_is_away_is_waited_for(platform_dsn: str) -> None:
    model = Away(responses=["back"])

    def ask(state: Joined) -> dict[str, Any]:
        del state
        return {"log": [model.invoke("Are you there?").text]}

    graph = StateGraph(Joined).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("away", graph)) as replica:
        run = await replica.run("away", {"log": []})
        assert (run.state, output_of(run)["log"]) == (RunState.SUCCEEDED, ["back"])
        assert (run.epoch, await replica.steps(run)) == (3, ["ask"])


class Counting(Joined):
    """What nodes log, and how many steps are left."""

    remaining_steps: RemainingSteps


async def test_steps_are_counted_on_whoever_goes_on_as_langgraph_counts_them(platform_dsn: str) -> None:
    def counting(model: FakeListChatModel) -> StateGraph[Counting, None, Counting, Counting]:
        def count(state: Counting) -> dict[str, Any]:
            return {"log": [str(state["remaining_steps"])]}

        def wait(state: Counting) -> dict[str, Any]:
            return {"log": [f"{model.invoke('Are you there?').text} {state['remaining_steps']}"]}

        def ask(state: Counting) -> dict[str, Any]:
            return {"log": [f"{interrupt('Go on?')} {state['remaining_steps']}"]}

        inside = StateGraph(Counting).add_node("within", count).add_edge(START, "within").compile()
        graph = StateGraph(Counting)
        graph.add_node("begin", count)
        graph.add_node("wait", wait)
        graph.add_node("inside", inside)
        graph.add_node("ask", ask)
        for start, to in (START, "begin"), ("begin", "wait"), ("wait", "inside"), ("inside", "ask"):
            graph.add_edge(start, to)
        return graph

    alone: Any = counting(FakeListChatModel(responses=["back"])).compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 40}
    await alone.ainvoke({"log": []}, config)
    expected = await alone.ainvoke(Command(resume="yes"), config)
    brought = loaded("counting", counting(Away(responses=["back"])))
    async with hosted_replica(platform_dsn, brought, policy=HostedPolicy(max_steps=40)) as replica:
        asked = await replica.run("counting", {"log": []})
        assert asked.epoch == 3
        assert output_of(await replica.answer(asked, "yes"))["log"] == expected["log"]


class Gone(FakeListChatModel):
    """A model whose endpoint stays away."""

    def _call(self, *_arguments: Any, **_named: Any) -> str:
        raise httpx.ConnectError("refused")


@pytest.fixture
def screenings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that a guard was asked about which lets all in, for all hosted graphs."""
    texts: list[str] = []

    async def allowed(_run: RunContext, text: str) -> Any:
        texts.append(text)
        return SimpleNamespace(allowed=True, reason="")

    async def screened(_agent: Any, context: RunContext, *_given: Any) -> StepRecord:
        session, guard = current_session(), SimpleNamespace(screen=allowed)
        assert session is not None
        return await admit(session, guard, context, "screened", "ask", "Are you there?")  # type: ignore[arg-type]

    monkeypatch.setattr(PinnedHosted, "admit", screened)
    return texts


async def test_the_guard_is_asked_once_however_often_a_run_is_taken_up(
    platform_dsn: str, screenings: list[str]
) -> None:
    graph = StateGraph(Joined).add_edge(START, "quick").add_edge(START, "ask")
    graph.add_node("quick", lambda _: {"log": ["quick"]})
    graph.add_node("ask", lambda _: {"log": [interrupt("Go on?")]})
    async with hosted_replica(platform_dsn, loaded("screened", graph)) as replica:
        asked = await replica.run("screened", {"log": []})
        assert [row["node"] for row in await replica.decisions(asked)] == ["screen_input"]
        ended = await replica.answer(asked, "asked")
        assert sorted(output_of(ended)["log"]) == ["asked", "quick"]
        assert sorted(await replica.steps(ended)) == ["ask", "quick", "screen_input"]
        assert len(screenings) == 1


@pytest.mark.usefixtures("screenings")
async def test_what_a_screened_run_waits_for_uses_up_its_time(platform_dsn: str) -> None:
    def ask(state: Joined) -> dict[str, Any]:
        del state
        return {"log": [Gone(responses=["never"]).invoke("Are you there?").text]}

    graph = StateGraph(Joined).add_node("ask", ask).add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("screened", graph)) as replica, asyncio.timeout(30):
        run = await replica.run("screened", {"log": []}, budget={"wall_time_s": 2})
        assert (run.state, run.epoch > 2) == (RunState.FAILED, True)
        assert [row["node"] for row in await replica.decisions(run)] == ["screen_input", "ask"]


async def test_a_node_that_handles_the_failure_of_another_has_its_step_before_its_own(platform_dsn: str) -> None:
    def fail(state: Joined) -> dict[str, Any]:
        raise ValueError(state)

    def handle(state: Joined, error: NodeError) -> Command[str]:
        del state
        return Command(update={"log": [type(error.error).__name__]}, goto="end")

    graph = StateGraph(Joined)
    graph.add_node("fail", fail, error_handler=handle)
    graph.add_node("end", lambda _: {"log": ["end"]})
    graph.add_edge(START, "fail")
    async with hosted_replica(platform_dsn, loaded("handled", graph)) as replica:
        run = await replica.run("handled", {"log": []})
        assert (run.state, output_of(run)["log"]) == (RunState.SUCCEEDED, ["ValueError", "end"]), run.error
        steps = await replica.steps(run)
        assert (steps[0], steps[-1], len(steps)) == ("fail", "end", 3)


async def test_what_its_steps_cost_adds_up_to_what_the_run_has_spent(replica: HostedReplica) -> None:
    run = await replica.run("slow_chain", {"until": 3})
    assert output_of(run)["messages"][-1]["content"] == str(1 + 2 + 3 + 1 + 4 + 9)
    async with replica.pools.calls.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*), count(DISTINCT sequence), max(sequence) FROM platform.run_events WHERE run_id = %s",
            [run.run_id],
        )
        row = await cursor.fetchone()
    assert row is not None
    assert row[0] == row[1] == row[2] == run.event_count
    assert run.spend["model_calls"] == 3


class _Panic(BaseException):
    """What a library raises that means to be caught by nobody."""


@pytest.mark.parametrize("where", ["coroutine", "task", "thread", "beside", "inside", "path", "path in thread"])
async def test_whatever_a_node_raises_ends_its_run_by_name(platform_dsn: str, where: str) -> None:
    raised: tuple[type[BaseException], ...] = (
        GeneratorExit,
        KeyboardInterrupt,
        SystemExit,
        asyncio.CancelledError,
        concurrent.futures.CancelledError,
        StopIteration,
        StopAsyncIteration,
        GraphDrained,
        _Panic,
    )

    def blow(state: Answers) -> Any:
        kind = raised[state["answers"][0]]
        raise kind("by a graph of its own") if kind is GraphDrained else kind

    async def blow_in_coroutine(state: Answers) -> Any:
        blow(state)

    async def blow_in_task(state: Answers) -> Any:
        await asyncio.gather(asyncio.create_task(blow_in_coroutine(state)), asyncio.sleep(0))

    def nothing(state: Answers) -> Answers:
        return {"answers": state["answers"][:0]}

    node: Any = {"task": blow_in_task, "thread": blow}.get(where, blow_in_coroutine)
    graph = StateGraph(Answers)
    if where.startswith("path"):
        graph.add_node("blow", nothing)
        graph.add_conditional_edges("blow", blow if where == "path in thread" else blow_in_coroutine, ["blow"])
    elif where == "inside":
        graph.add_node("blow", StateGraph(Answers).add_node("in", node).add_edge(START, "in").compile())
    else:
        graph.add_node("blow", node)
    graph.add_edge(START, "blow")
    if where == "beside":
        graph.add_node("beside", nothing).add_edge(START, "beside")
    policy = HostedPolicy(node_timeout_s=20)
    async with hosted_replica(platform_dsn, loaded("blowing", graph), policy=policy) as replica, asyncio.timeout(60):
        for number, kind in enumerate(raised):
            run = await replica.run("blowing", {"answers": [number]})
            assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed"), kind
            assert "NODE_TIMED_OUT" not in run.error
            assert run.epoch == 1


async def test_what_ended_beside_a_question_is_kept_though_the_database_is_away_for_a_moment(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    failures = [DatabaseAway("as asked"), DatabaseAway("as asked")]
    write, tried = RunSaver._write_ahead, asyncio.Event()

    async def fail_first(saver: RunSaver, *given: Any) -> None:
        tried.set()
        # Not the question's own: whose write of that fails gives the run back.
        if all(row.idx >= 0 for row in given[-1]):
            if failures:
                raise failures.pop()
            await asyncio.sleep(WRITES_WAIT_S)  # the database has come back, and is slow
        await write(saver, *given)

    def send(state: Joined) -> Joined:
        sent.append("one")
        return {"log": [*state["log"], "sent"]}

    async def ask(state: Joined) -> Joined:
        del state
        await tried.wait()  # the other's writes, ahead of the step
        return {"log": [interrupt("Go on?")]}

    monkeypatch.setattr(RunSaver, "_write_ahead", fail_first)
    graph = StateGraph(Joined).add_node("send", send).add_node("ask", ask)
    graph.add_edge(START, "send").add_edge(START, "ask")
    async with hosted_replica(platform_dsn, loaded("sender", graph)) as replica, asyncio.timeout(60):
        asked = await replica.run("sender", {"log": []})
        run = await replica.answer(asked, "yes")
        assert (run.state, sorted(output_of(run)["log"]), sent) == (RunState.SUCCEEDED, ["sent", "yes"], ["one"])
