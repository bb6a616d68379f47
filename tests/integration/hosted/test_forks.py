"""State of hosted runs by step, and runs that go on from a step of another: as LangGraph's own, and on record."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.graph import END, START, StateGraph
from psycopg import AsyncCursor
from signalbox.v1 import threads_pb2

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR
from services.kit.wire.pages import pages
from services.runtime.api.thread_servicer import MOST_FIELD_BYTES, MOST_STATE_BYTES, ThreadServicer, fitting_values
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.pages import MOST_BYTES
from services.runtime.engine.records import ForkedFrom, RunRecord, RunState
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.run_states import NewFork, RunStates
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import Fork, ThreadStore
from services.runtime.errors import CheckpointNotFound, ForkRefused, RequestIdReused, RunNotFound, ThreadBusy
from services.runtime.hosted.definition import json_values
from services.runtime.hosted.loading import LoadedGraph
from services.runtime.hosted.schemas import plain
from tests.fixtures.hosted import CALLER, FOLDER, HostedReplica, graph_alone, hosted_replica, loaded, output_of

GIVEN = {"messages": ["Add up."], "wanted": 2}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}


@pytest.fixture
async def replica(platform_dsn: str) -> AsyncIterator[HostedReplica]:
    """A replica that offers the graphs of the folder."""
    async with hosted_replica(platform_dsn, folder=FOLDER) as working:
        yield working


def states_of(replica: HostedReplica) -> RunStates:
    return RunStates(replica.pools.calls, make_serde(), replica.store, replica.agents)


async def forked(replica: HostedReplica, run: RunRecord, step: int, **changes: Any) -> RunRecord:
    """A run that goes on from a step, once it has left off."""
    made = await states_of(replica).fork(CALLER, NewFork(run.run_id, step, **changes))
    return await replica.left_off(made)


async def alone_after(step: int, update: dict[str, Any] | None = None, as_node: str | None = None) -> Any:
    """What LangGraph alone comes to when it goes on from a step."""
    graph = graph_alone("kinds", "calculator").builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(GIVEN, CONFIG)
    [at] = [each async for each in graph.aget_state_history(CONFIG) if each.metadata["step"] == step]
    config = at.config if update is None else await graph.aupdate_state(at.config, update, as_node)
    return await graph.ainvoke(None, config)


def test_a_fork_is_read_by_the_releases_beside_it() -> None:
    fork = ForkedFrom("run", "checkpoint", 3, {"wanted": 0})
    # What is as by default is not stored, so that a release that lacks the field reads the rest; one more is no fault.
    assert fork.stored == {"run_id": "run", "checkpoint_id": "checkpoint", "step": 3, "update": {"wanted": 0}}
    assert ForkedFrom.of({**fork.stored, "of_a_later_release": True}) == fork


async def test_the_state_is_there_step_by_step(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    states = states_of(replica)
    last, steps = await states.state(CALLER, run.run_id, None)
    assert [each.step for each in steps] == [-1, 0, 1, 2, 3, 4, 5]
    assert [each.next_nodes for each in steps[1:]] == [("model",), ("tools",), ("model",), ("tools",), ("model",), ()]
    assert last.checkpoint == steps[-1]
    assert (len(last.values["messages"]), last.values["rounds"]) == (6, 3)
    second, _ = await states.state(CALLER, run.run_id, 2)
    assert [message["role"] for message in second.values["messages"]] == ["human", "ai", "tool"]
    assert not [name for name in second.values if name.startswith("__")]
    with pytest.raises(CheckpointNotFound, match="-1, 0, 1, 2, 3, 4, 5"):
        await states.state(CALLER, run.run_id, 9)


async def test_state_is_its_callers_alone(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    for stranger in (Caller("28", frozenset()), Caller("28", frozenset({ROLE_OPERATOR}))):
        with pytest.raises(RunNotFound):
            await states_of(replica).state(stranger, run.run_id, None)
        with pytest.raises(RunNotFound):
            await states_of(replica).fork(stranger, NewFork(run.run_id, 1))


@pytest.mark.parametrize(
    ("step", "update", "as_node", "ways"),
    [
        # As it was: the model's last answers once more.
        (3, None, "", ["tools", "model"]),
        # The model has asked often enough, says who changes that: its edge leads elsewhere, and that is on record.
        (3, {"rounds": 5}, "model", ["model", "give_up"]),
        # Whoever ended last is taken to have changed it.
        (2, {"messages": [{"role": "user", "content": "And more."}]}, "", ["model", "tools", "model"]),
    ],
)
async def test_a_run_goes_on_from_a_step_as_langgraph_does(
    replica: HostedReplica, step: int, update: dict[str, Any] | None, as_node: str, ways: list[str]
) -> None:
    run = await replica.run("calculator", GIVEN)
    fork = await forked(replica, run, step, update=update, as_node=as_node)
    assert fork.state is RunState.SUCCEEDED, fork.error
    expected = await alone_after(step, update, as_node or None)
    output = output_of(fork)
    assert [each["content"] for each in output["messages"]] == [each.content for each in expected["messages"]]
    assert output["rounds"] == expected["rounds"]
    assert await replica.steps(fork) == ways
    assert fork.forked_from is not None
    checkpoint = fork.forked_from.checkpoint_id
    assert fork.forked_from == ForkedFrom(run.run_id, checkpoint, step, update, as_node)
    # What it was made of is as it was, and may be read and gone on from once more.
    assert (await replica.store.get(run.run_id, CALLER)).output == run.output
    assert len((await states_of(replica).state(CALLER, run.run_id, None))[1]) == 7
    again = await forked(replica, fork, (await states_of(replica).state(CALLER, fork.run_id, None))[1][0].step)
    assert again.state is RunState.SUCCEEDED
    assert again.forked_from is not None
    assert again.forked_from.run_id == fork.run_id


async def test_a_fork_may_only_change_the_state_and_others_go_on_from_there(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    changed = await forked(replica, run, 3, update={"rounds": 5}, as_node="model", only_state=True)
    assert changed.state is RunState.SUCCEEDED, changed.error
    state, _ = await states_of(replica).state(CALLER, changed.run_id, None)
    assert state.checkpoint.next_nodes == ("give_up",)
    assert await replica.steps(changed) == ["model"]
    on = await forked(replica, changed, state.checkpoint.step)
    assert (on.state, await replica.steps(on)) == (RunState.SUCCEEDED, ["give_up"])
    assert output_of(on)["messages"][-1]["content"] == "I give up."


async def test_a_fork_may_end_where_it_is(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    ended = await forked(replica, run, 3, as_node="__end__")
    assert ended.state is RunState.SUCCEEDED, ended.error
    state, _ = await states_of(replica).state(CALLER, ended.run_id, None)
    assert state.checkpoint.next_nodes == ()
    assert len(state.values["messages"]) == 4


async def test_a_repeated_request_finds_its_fork(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    states, asked = states_of(replica), NewFork(run.run_id, 3, {"rounds": 5}, "model", request_id="once")
    first, second = await asyncio.gather(states.fork(CALLER, asked), states.fork(CALLER, asked))
    assert first.run_id == second.run_id
    ended = await replica.left_off(first)
    # Also when the step that it goes on from is no longer there.
    history = CheckpointHistory(replica.pools.steps, make_serde())
    await Pruner(replica.pools.calls, history, {"default": RetentionPolicy(history_minutes=1e-6)}).prune(wait=True)
    assert await states.fork(CALLER, asked) == ended
    others = ({"step": 2}, {"update": None}, {"as_node": "tools"}, {"only_state": True})
    for other in [replace(asked, **each) for each in others]:
        with pytest.raises(RequestIdReused):
            await states.fork(CALLER, other)
    with pytest.raises(RequestIdReused):
        await replica.create("calculator", GIVEN, request_id="once")


async def test_a_repeated_request_changes_a_state_once(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    states = states_of(replica)
    asked = NewFork(run.run_id, 3, {"rounds": 5}, "model", request_id="once", only_state=True)
    first, second = [await states.fork(CALLER, asked) for _ in range(2)]
    assert first.run_id == second.run_id
    assert await replica.steps(await replica.left_off(first)) == ["model"]
    with pytest.raises(RequestIdReused):
        await states.fork(CALLER, replace(asked, only_state=False))


async def test_what_a_graph_does_not_have_can_not_be_changed(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    with pytest.raises(InvalidRequest) as refused:
        await forked(replica, run, 2, update={"round": 1, "rounds": 2}, as_node="modal")
    assert [each.field for each in refused.value.violations] == ["update.round", "as_node"]
    with pytest.raises(InvalidRequest, match="NUL"):
        await forked(replica, run, 2, update={"messages": ["a\0b"]}, as_node="model")
    # Who of two ended last, nobody can say.
    rollout = await replica.run("rollout", {"kind": "full", "log": []})
    unclear = await forked(replica, rollout, 1, update={"log": ["more"]})
    assert (unclear.state, unclear.stop_reason) == (RunState.FAILED, "fork_refused")
    assert "as_node" in unclear.error


async def test_of_an_ended_run_retention_leaves_the_last_step(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    history = CheckpointHistory(replica.pools.steps, make_serde())
    await Pruner(replica.pools.calls, history, {"default": RetentionPolicy(history_minutes=1e-6)}).prune(wait=True)
    _, steps = await states_of(replica).state(CALLER, run.run_id, None)
    assert [each.step for each in steps] == [5]
    with pytest.raises(CheckpointNotFound, match=r"those whose state is there are 5; retention"):
        await forked(replica, run, 2)
    # From there, what a person adds to the conversation goes on from its beginning.
    more = await forked(replica, run, 5, update={"messages": ["And more."]}, as_node="tools")
    assert more.state is RunState.SUCCEEDED, more.error
    assert await replica.steps(more) == ["model"]


async def test_a_fork_of_a_thread_takes_its_state_along(replica: HostedReplica) -> None:
    async def turn(text: str, thread_id: str) -> RunRecord:
        return await replica.run("talk", {"messages": [text], "text": text}, thread_id=thread_id)

    await turn("one", "here")
    run = await turn("two", "here")
    threads = ThreadStore(replica.pools.calls, make_serde(), replica.store, replica.agents)
    thread, _ = await threads.fork(CALLER, Fork("here", run.run_id))
    output = output_of(await turn("three", thread.thread_id))
    assert (output["turns"], output["seen"]) == (3, ["one", "two", "three"])
    # From a step of the second: what follows it is done again, from what the first had left.
    _, steps = await threads.state(CALLER, "here", run.run_id, None)
    _, made = await threads.fork(CALLER, Fork("here", run.run_id, checkpoint_id=steps[1].checkpoint_id))
    assert made is not None
    assert output_of(await replica.left_off(made))["turns"] == 2
    assert (await replica.store.get(made.run_id, CALLER)).forked_from == ForkedFrom(
        run.run_id, steps[1].checkpoint_id, steps[1].step
    )


def test_fields_that_are_too_large_for_an_answer_say_how_large_they_are() -> None:
    small, large = "x" * 10, ["x" * MOST_FIELD_BYTES] * (MOST_STATE_BYTES // MOST_FIELD_BYTES + 1)
    assert fitting_values({"a": small, "b": small}) == {"a": small, "b": small}
    told = fitting_values({"a": small, "b": large})
    assert told["a"] == small
    assert told["b"].endswith(" bytes of JSON>")


async def test_a_run_goes_on_in_its_thread_from_an_earlier_step_with_another_input(replica: HostedReplica) -> None:
    async def turn(text: str) -> RunRecord:
        return await replica.run("talk", {"messages": [text], "text": text}, thread_id="edited")

    async def edited(run: RunRecord, step: int, text: str | None) -> RunRecord:
        given = None if text is None else {"messages": [text], "text": text}
        return await forked(replica, run, step, in_thread=True, input=given)

    def said(run: RunRecord) -> list[str]:
        return [each["content"] for each in output_of(run)["messages"] if each["type"] == "human"]

    await turn("one")
    run = await turn("two")
    # What had been asked for is not taken: another input is.
    _, steps = await states_of(replica).state(CALLER, run.run_id, None)
    other = await edited(run, steps[0].step, "zwei")
    assert (other.thread_id, said(other)) == ("edited", ["one", "zwei"])
    assert other.title == "zwei"
    # What follows goes on from there, and a step is done again where no input is given.
    again = await edited(other, (await states_of(replica).state(CALLER, other.run_id, None))[1][-2].step, None)
    assert said(again) == ["one", "zwei"]
    assert said(await turn("three")) == ["one", "zwei", "three"]


async def test_a_run_goes_on_in_a_thread_only_while_no_other_does(replica: HostedReplica) -> None:
    run = await replica.run("talk", {"messages": ["one"], "text": "one"}, thread_id="busy")
    asking = await replica.run("talk", {"messages": ["ask"], "text": "ask"}, thread_id="busy")
    with pytest.raises(ThreadBusy):
        await forked(replica, run, -1, in_thread=True)
    with pytest.raises(InvalidRequest):
        await forked(
            replica, asking, (await states_of(replica).state(CALLER, asking.run_id, None))[1][0].step, input={"text": 1}
        )
    alone = await replica.run("talk", {"messages": ["one"], "text": "one"})
    with pytest.raises(ForkRefused, match="in no thread"):
        await forked(replica, alone, -1, in_thread=True)


async def test_a_state_is_read_as_an_output_has_it(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    shown, steps = await states_of(replica).state(CALLER, run.run_id, None, as_output=True, alone=True)
    assert [each.step for each in steps] == [5]
    assert shown.values["messages"] == json_values(output_of(run))["messages"]
    before, _ = await states_of(replica).state(CALLER, run.run_id, -1, as_output=True, alone=True)
    assert (before.checkpoint.next_nodes, before.values) == (("__start__",), {})
    with pytest.raises(CheckpointNotFound, match="those whose state is there are -1, 0"):
        await states_of(replica).state(CALLER, run.run_id, 99, alone=True)


class Growing(list[Any]):
    """A list that counts how often one like it is added to."""

    added_count = 0

    def copy(self) -> Growing:
        return Growing(self)

    def extend(self, more: Iterable[Any]) -> None:
        Growing.added_count += 1
        super().extend(more)


class Counted:
    """Counts what is read, and gives lists that count."""

    def __init__(self, inner: SerializerProtocol) -> None:
        self._inner = inner
        self.read_count = 0

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._inner.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.read_count += 1
        read = self._inner.loads_typed(data)
        if not isinstance(read, dict):
            return read  # what a task wrote
        return {name: Growing(each) if isinstance(each, list) else each for name, each in read.items()}


class Counting(TypedDict):
    """What a node that goes on and on adds to."""

    wanted: int
    seen: Annotated[list[int], operator.add]


def counting() -> LoadedGraph:
    made: StateGraph[Any] = StateGraph(Counting)
    made.add_node("count", lambda given: {"seen": [len(given["seen"])]})
    made.add_edge(START, "count")
    made.add_conditional_edges("count", lambda given: "count" if len(given["seen"]) < given["wanted"] else END)
    return loaded("counting", made)


NOBODY: Any = None


def servicer_of(states: RunStates, caller: Caller = CALLER) -> ThreadServicer:
    """What serves states to a caller; it serves no threads."""
    callers: Any = SimpleNamespace(caller=lambda _: caller)
    return ThreadServicer(callers, NOBODY, states, NOBODY)


async def listed(states: ThreadServicer, *, size: int = 50, **asked: Any) -> list[threads_pb2.ThreadState]:
    """All that a list of states has, page by page."""
    request = threads_pb2.ListRunStatesRequest(as_output=True, **asked)
    told = pages(lambda given: states.ListRunStates(given, NOBODY), request, "states", size=size)
    return [each async for page in told for each in page.states]


async def test_the_states_of_a_run_are_listed_in_both_orders_from_any_step(replica: HostedReplica) -> None:
    run = await replica.run("calculator", GIVEN)
    states = servicer_of(states_of(replica))

    async def steps(**asked: Any) -> list[int]:
        return [each.checkpoint.step for each in await listed(states, run_id=run.run_id, **asked)]

    assert await steps() == [-1, 0, 1, 2, 3, 4, 5]
    assert await steps(newest_first=True) == [5, 4, 3, 2, 1, 0, -1]
    assert await steps(size=1, newest_first=True) == [5, 4, 3, 2, 1, 0, -1]
    assert await steps(size=2, after_step=-1, before_step=4) == [0, 1, 2, 3]
    assert await steps(size=2, after_step=0, before_step=4, newest_first=True) == [3, 2, 1]
    assert await steps(after_step=5) == []
    for each in await listed(states, run_id=run.run_id, size=3):
        alone = threads_pb2.GetRunStateRequest(run_id=run.run_id, step=each.checkpoint.step, as_output=True)
        assert (await states.GetRunState(alone, NOBODY)).state == each
    for stranger in (Caller("28", frozenset()), Caller("28", frozenset({ROLE_OPERATOR}))):
        with pytest.raises(RunNotFound):
            await listed(servicer_of(states_of(replica), stranger), run_id=run.run_id)
    with pytest.raises(InvalidRequest):
        await listed(states, run_id=run.run_id, page_token="none")
    # What has ended by then, is there.
    page = await states.ListRunStates(threads_pb2.ListRunStatesRequest(run_id=run.run_id), NOBODY)
    assert page.last_sequence == (await replica.store.get(run.run_id, CALLER)).event_count > 0


async def test_a_page_of_states_is_small_enough_to_be_sent(replica: HostedReplica) -> None:
    text = "x" * (MOST_BYTES // 3)
    run = await replica.run("calculator", {**GIVEN, "messages": [text]})
    states = servicer_of(states_of(replica))
    found = await listed(states, run_id=run.run_id)
    assert [each.checkpoint.step for each in found] == [-1, 0, 1, 2, 3, 4, 5]
    page = await states.ListRunStates(threads_pb2.ListRunStatesRequest(run_id=run.run_id), NOBODY)
    assert 1 < len(page.states) < len(found)
    assert page.ByteSize() < 2 * MOST_BYTES


async def test_of_a_page_of_states_each_is_put_together_from_the_one_before(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, counting()) as replica:

        async def cost(wanted: int, **asked: Any) -> tuple[int, int]:
            run = await replica.run("counting", {"wanted": wanted, "seen": []})
            serde, Growing.added_count = Counted(make_serde()), 0
            states = servicer_of(RunStates(replica.pools.calls, serde, replica.store, replica.agents))
            found = await listed(states, run_id=run.run_id, size=100, **asked)
            seen = [len(plain(each.values)["seen"]) for each in found if each.checkpoint.step >= 0]
            assert sorted(seen) == list(range(wanted + 1))
            return serde.read_count, Growing.added_count

        for newest_first in (False, True):
            few, many = await cost(10, newest_first=newest_first), await cost(40, newest_first=newest_first)
            assert many[0] < 5 * few[0]
            # As often as there are steps, and not once for each step before each.
            assert 10 < many[1] <= 40


@pytest.mark.parametrize("newest_first", [False, True])
async def test_who_reads_a_run_step_by_step_has_each_row_read_once(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    """Also where it is read page by page, from its end; and what retention has removed is not told from memory."""
    wanted = 30
    read: list[str] = []
    fetch_all = AsyncCursor.fetchall

    async def fetched(cursor: AsyncCursor[Any]) -> list[Any]:
        rows = await fetch_all(cursor)
        named = rows if rows and isinstance(rows[0], dict) else []
        read.extend(row["checkpoint_id"] for row in named if row.get("changes") is not None)
        return rows

    async with hosted_replica(platform_dsn, counting()) as replica:
        run = await replica.run("counting", {"wanted": wanted, "seen": []})
        serde = Counted(make_serde())
        states = servicer_of(RunStates(replica.pools.calls, serde, replica.store, replica.agents))
        monkeypatch.setattr(AsyncCursor, "fetchall", fetched)
        found = await listed(states, run_id=run.run_id, size=1, newest_first=newest_first, with_tasks=True)
        assert len(found) == wanted + 2
        assert len(read) == len(set(read)) == wanted + 2
        # Of values, each is read once, too, and of tasks' writes those of a step and of the one before.
        assert serde.read_count <= 5 * (wanted + 2)
        monkeypatch.undo()
        history = CheckpointHistory(replica.pools.calls, make_serde())
        await history.prune([run.run_id], "keep_latest")
        left = await listed(states, run_id=run.run_id)
        assert [each.checkpoint.step for each in left] == [wanted]
        assert len(plain(left[0].values)["seen"]) == wanted
        await history.delete_threads([run.run_id])
        assert await listed(states, run_id=run.run_id) == []


class Loose(TypedDict):
    """A state that its own code does not keep to, as most do somewhere."""

    text: str
    seen: list[str]


class Strict(TypedDict):
    """As another version has it."""

    text: str
    seen: int


def loose(state: type, *names: str) -> LoadedGraph:
    made: StateGraph[Any] = StateGraph(state)
    for name in names:
        made.add_node(name, lambda given: {"text": None, "seen": [*given.get("seen", []), 1]})
    for before, after in itertools.pairwise((START, *names)):
        made.add_edge(before, after)
    return loaded("loose", made)


async def test_a_graph_goes_on_with_what_its_own_code_has_put_into_its_state(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loose(Loose, "one", "two")) as replica:
        run = await replica.run("loose", {"text": "x"}, thread_id="t")
        fork = await forked(replica, run, 1, in_thread=True)
        assert (await replica.steps(fork), fork.state) == (["two"], RunState.SUCCEEDED)
        changed = await forked(replica, run, 1, in_thread=True, update={"seen": 5}, as_node="two", only_state=True)
        assert changed.state is RunState.SUCCEEDED
        threads = ThreadStore(replica.pools.calls, make_serde(), replica.store, replica.agents)
        checkpoint = (await states_of(replica).state(CALLER, run.run_id, 1))[0].checkpoint.checkpoint_id
        _, copy = await threads.fork(CALLER, Fork("t", run.run_id, checkpoint))
        assert copy is not None
        await replica.engine.tell_of_fork(copy)
        assert (await replica.left_off(copy)).state is RunState.SUCCEEDED
    # What another version has left is held to the types, and to the nodes that there are.
    async with hosted_replica(platform_dsn, loose(Strict, "one", "two")) as replica:
        with pytest.raises(ForkRefused, match="seen is list, not int"):
            await forked(replica, run, 1)
    async with hosted_replica(platform_dsn, loose(Loose, "one")) as replica:
        with pytest.raises(ForkRefused, match="waits for node 'two', which is gone"):
            await forked(replica, run, 1)


def tidy(*names: str) -> LoadedGraph:
    """A graph of nodes one after the other, whose state is what it says."""
    made: StateGraph[Any] = StateGraph(Loose)
    for name in names:
        made.add_node(name, lambda given: {"text": given["text"] + "."})
    for before, after in itertools.pairwise((START, *names)):
        made.add_edge(before, after)
    return loaded("tidy", made)


async def test_who_changes_what_is_to_run_next_goes_on_from_a_step_that_waits_for_what_is_gone(
    platform_dsn: str,
) -> None:
    async with hosted_replica(platform_dsn, tidy("one", "two")) as replica:
        run = await replica.run("tidy", {"text": "x"})
    async with hosted_replica(platform_dsn, tidy("one", "three")) as replica:
        with pytest.raises(ForkRefused, match="waits for node 'two', which is gone"):
            await forked(replica, run, 1)
        changed = await forked(replica, run, 1, update={"text": "y"}, as_node="one")
        assert (await replica.steps(changed), output_of(changed)["text"]) == (["three"], "y.")
        ended = await forked(replica, run, 1, as_node="__end__")
        assert (ended.state, output_of(ended)["text"]) == (RunState.SUCCEEDED, "x.")
