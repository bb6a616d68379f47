"""Threads of hosted graphs: each run goes on with the state of the one before, as LangGraph's own do."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from services.kit.identity.caller import Caller
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.records import ActiveRunPolicy, RunRecord, RunState
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde
from tests.fixtures.hosted import CALLER, HostedReplica, graph_alone, hosted_replica, loaded, output_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def turn(replica: HostedReplica, text: str, **changes: Any) -> RunRecord:
    """A run of the graph that talks; what fails or asks leaves off there."""
    return await replica.run("talk", {"messages": [text], "text": text}, **changes)


def said(output: Any) -> list[str]:
    """What the messages of a state say."""
    return [each["content"] if isinstance(each, dict) else each.content for each in output["messages"]]


async def test_a_thread_goes_on_as_langgraphs_does(replica: HostedReplica) -> None:
    alone = graph_alone("threads", "talk").compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    # After one that failed, and after one that was cancelled while it asked.
    for text in ("one", "fail", "two", "ask", "three", "where"):
        run = await turn(replica, text, thread_id="1", active_run_policy=ActiveRunPolicy.CANCEL_ACTIVE)
        try:
            expected = await alone.ainvoke({"messages": [text], "text": text}, config)
        except ValueError:
            assert run.state is RunState.FAILED
            continue
        if "__interrupt__" in expected:
            assert run.state is RunState.AWAITING_INPUT
            continue
        output = output_of(run)
        assert said(output) == said(expected)
        assert (output["turns"], output["seen"]) == (expected["turns"], expected["seen"])
        assert await replica.steps(run) == ["count", "remember/note", "remember", "reply"]
    # Another thread, and a run of none, begin with their input.
    assert output_of(await turn(replica, "new", thread_id="2"))["turns"] == 1
    assert output_of(await turn(replica, "new"))["turns"] == 1


async def test_a_run_that_is_rolled_back_leaves_its_thread_as_it_was(replica: HostedReplica) -> None:
    rolling: dict[str, Any] = {"thread_id": "back", "active_run_policy": ActiveRunPolicy.ROLL_BACK_ACTIVE}
    asked = await turn(replica, "ask", **rolling)
    # Also the first run of a thread, and one that was to roll back itself.
    asked_again = await turn(replica, "ask", **rolling)
    one = await turn(replica, "one", **rolling)
    assert (said(output_of(one))[0], output_of(one)["seen"]) == ("one", ["one"])
    for run, by in ((asked, asked_again), (asked_again, one)):
        found = await replica.store.get(run.run_id, CALLER)
        assert (found.state, found.rolled_back_by) == (RunState.CANCELLED, by.run_id)
        assert await replica.steps(run) == ["count", "remember/note", "remember"]
    # One that has ended is not rolled back.
    two = output_of(await turn(replica, "two", **rolling))
    assert (two["turns"], two["seen"]) == (2, ["one", "two"])


class Around(TypedDict):
    text: str
    seen: list[str]


class Noted(TypedDict):
    text: str
    noted: Annotated[list[str], operator.add]
    seen: list[str]


def note(state: Noted) -> dict[str, Any]:
    return {"noted": [state["text"]], "seen": [*state["noted"], state["text"]]}


def keeping(*, called_by_a_node: bool) -> StateGraph[Any]:
    """A graph with one inside that keeps its state from run to run, as a node or called by one."""
    inner = StateGraph(Noted).add_node("note", note).add_edge(START, "note").compile(checkpointer=True)

    async def call(state: Around) -> dict[str, Any]:
        return {"seen": (await inner.ainvoke({"text": state["text"], "noted": [], "seen": []}))["seen"]}

    made = StateGraph(Around).add_node("before", lambda state: {"text": state["text"]})
    made.add_node("inside", call if called_by_a_node else inner)
    return made.add_edge(START, "before").add_edge("before", "inside")


@pytest.mark.parametrize("called_by_a_node", [False, True])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_graph_inside_that_keeps_its_state_goes_on_after_a_death_with_its_input(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch, *, called_by_a_node: bool, begun: bool
) -> None:
    graph = loaded("keeping", keeping(called_by_a_node=called_by_a_node))
    put, reached = RunSaver.aput, asyncio.Event()

    async def held(saver: RunSaver, config: RunnableConfig, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        if config["configurable"].get("checkpoint_ns") == "inside" and (metadata["source"] == "loop") == begun:
            reached.set()
            await asyncio.Event().wait()
        return await put(saver, config, checkpoint, metadata, versions)

    async with hosted_replica(platform_dsn, graph) as replica:
        await replica.run("keeping", {"text": "one"}, thread_id="t")
        monkeypatch.setattr(RunSaver, "aput", held)
        run = await replica.create("keeping", {"text": "two"}, thread_id="t")
        await asyncio.wait_for(reached.wait(), 20)
    monkeypatch.setattr(RunSaver, "aput", put)
    async with hosted_replica(platform_dsn, graph) as replica:
        assert output_of(await replica.left_off(run))["seen"] == ["one", "two"]
        after = await replica.run("keeping", {"text": "three"}, thread_id="t")
        assert output_of(after)["seen"] == ["one", "two", "three"]


async def test_runs_of_a_thread_wait_for_the_state_of_the_one_before(replica: HostedReplica) -> None:
    queued: dict[str, Any] = {"thread_id": "q", "active_run_policy": ActiveRunPolicy.QUEUE}
    asked = await turn(replica, "ask", **queued)
    runs = [
        await replica.create("talk", {"messages": [text], "text": text}, **queued) for text in ("after", "and after")
    ]
    answered = await replica.answer(asked, "this")
    assert said(output_of(answered)) == ["ask", "You said this."]
    first, second = [output_of(await replica.left_off(run)) for run in runs]
    assert (first["turns"], second["turns"]) == (2, 3)
    assert second["seen"] == ["ask", "after", "and after"]
    assert said(second)[:4] == ["ask", "You said this.", "after", "3 messages, 2 turns"]


async def test_what_needs_more_rights_than_a_run_has_is_not_in_its_state(replica: HostedReplica) -> None:
    plain, with_more = Caller("27", frozenset()), Caller("27", frozenset({"secrets"}))
    for caller, text, turns in ((plain, "one", 1), (with_more, "a secret", 2), (plain, "two", 2)):
        run = await turn(replica, text, thread_id="r", caller=caller)
        assert output_of(run)["turns"] == turns
    assert "a secret" not in said(output_of(run))


async def test_a_thread_whose_state_is_gone_says_so(replica: HostedReplica) -> None:
    run = await turn(replica, "one", thread_id="g")
    pruner = Pruner(
        replica.pools.calls,
        CheckpointHistory(replica.pools.steps, make_serde()),
        {"default": RetentionPolicy(history_minutes=1e-6, checkpoint_days=1e-9)},
    )
    await pruner.prune(wait=True)
    lost = await turn(replica, "two", thread_id="g")
    assert (lost.state, lost.stop_reason) == (RunState.FAILED, "thread_state_gone")
    assert run.run_id in lost.error


class Kept(TypedDict, total=False):
    count: Annotated[int, operator.add]


class KeptOtherwise(TypedDict, total=False):
    count: Annotated[list[int], operator.add]


class KeptAndMore(Kept, total=False):
    name: str


async def test_other_code_goes_on_with_a_threads_state_where_its_channels_fit(platform_dsn: str) -> None:
    def version(state: type, added: Any) -> StateGraph[Any, None, Any, Any]:
        return StateGraph(state).add_node("add", lambda _: {"count": added}).add_edge(START, "add")

    for state, added, ended in (
        (Kept, 1, ("SUCCEEDED", {"count": 1.0})),
        (KeptAndMore, 10, ("SUCCEEDED", {"count": 11.0})),
        (KeptOtherwise, [1], ("FAILED", "thread_state_unfit")),
    ):
        async with hosted_replica(platform_dsn, loaded("kept", version(state, added))) as replica:
            run = await replica.run("kept", {}, thread_id="k")
            assert (run.state, output_of(run) if run.output else run.stop_reason) == ended
    assert "count is int, not" in run.error
