"""What models say while they say it: told to those who asked, on any replica, and to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt
from pydantic import Field

from services.runtime.engine import chunk_post, watches
from services.runtime.engine import events as stream_of_events
from services.runtime.engine.chunk_post import ChunkPost
from services.runtime.engine.events import MOST_WAITING, Event, EventStream
from services.runtime.engine.questions import Answer
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.run_states import NewFork, RunStates
from services.runtime.engine.serde import make_serde
from tests.fixtures.hosted import CALLER, HostedReplica, hosted_replica, loaded, output_of
from tests.integration.runtime.conftest import AGENTS, OwnerStore, new_run

WORDS = ["There ", "are ", "four ", "lights."]
TIMEOUT_S = 60.0


class Trickle(BaseChatModel):
    """Says some words one after the other; before the third, it waits for a gate where it has one."""

    gates: list[asyncio.Event] = Field(default_factory=list)
    streams: int = 0
    usage: bool = True
    breaks: int = 0

    @property
    def _llm_type(self) -> str:
        return "trickle"

    def _usage(self) -> Any:
        return {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15} if self.usage else None

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        message = AIMessage("".join(WORDS), usage_metadata=self._usage())
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunk(self, number: int) -> ChatGenerationChunk:
        last = number == len(WORDS) - 1
        usage = self._usage() if last else None
        return ChatGenerationChunk(message=AIMessageChunk(content=WORDS[number], usage_metadata=usage))

    def _stream(
        self, *_: Any, run_manager: CallbackManagerForLLMRun | None = None, **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.streams += 1
        for number in range(len(WORDS)):
            chunk = self._chunk(number)
            if run_manager:
                run_manager.on_llm_new_token(WORDS[number], chunk=chunk)
            yield chunk

    async def _astream(
        self, *_: Any, run_manager: AsyncCallbackManagerForLLMRun | None = None, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.streams += 1
        gate = self.gates.pop(0) if self.gates else None
        for number in range(len(WORDS)):
            if number == 2:
                if gate:
                    await gate.wait()
                if self.breaks:
                    self.breaks -= 1
                    raise RuntimeError("broken off")
            chunk = self._chunk(number)
            if run_manager:
                await run_manager.on_llm_new_token(WORDS[number], chunk=chunk)
            yield chunk


def speaking(model: Trickle, **node: Any) -> Any:
    """A graph whose one node asks a model."""

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("speak", speak, **node)
    builder.add_edge(START, "speak")
    return builder


async def told(replica: HostedReplica, run: RunRecord, opens: asyncio.Event | None = None, **watch: Any) -> list[Event]:
    """All that a watcher with chunks is told of a run; once the words come that a gate holds back, it opens that."""
    events = []
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, run.event_count, chunks=True, **watch):
            events.append(event)
            if opens and event.kind == "token_chunk" and said(events)[-1][1] == "".join(WORDS[:2]):
                opens.set()
    return events


def said(events: list[Event]) -> list[tuple[str, str]]:
    """Each message that came in chunks: its node and its text, as a client puts it together."""
    messages: dict[str, tuple[str, str]] = {}
    for event in events:
        part = event.payload or {}
        if event.kind == "token_chunk":
            node, text = messages.get(part["message_id"], (part["node"], ""))
            assert part["offset"] == len(text)
            messages[part["message_id"]] = (node, text + part["text"])
        elif event.kind == "tokens_reset" and part["cause"] != "dropped":
            messages = {}
    return list(messages.values())


async def test_what_a_model_says_is_told_from_coroutines_threads_and_inner_graphs(platform_dsn: str) -> None:
    model = Trickle()
    builder = StateGraph(MessagesState)
    builder.add_node("inside", speaking(model).compile())
    builder.add_node("thread", lambda state: {"messages": [model.invoke(state["messages"])]})
    silent = model.with_config(tags=["nostream"])

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await silent.ainvoke(state["messages"])]}

    builder.add_node("think", think)
    builder.add_edge(START, "inside")
    builder.add_edge("inside", "thread")
    builder.add_edge("thread", "think")
    async with hosted_replica(platform_dsn, loaded("speaker", builder)) as replica:
        run = await replica.create("speaker", {"messages": ["Go."]}, chunks=True)
        events = await told(replica, run, fresh=True)
        assert said(events) == [("inside/speak", "".join(WORDS)), ("thread", "".join(WORDS))]
        kinds = [(event.kind, (event.payload or {}).get("node")) for event in events]
        assert kinds.index(("token_chunk", "thread")) < kinds.index(("node_completed", "thread"))
        numbered = [event.sequence for event in events if event.sequence]
        ended = await replica.store.get(run.run_id, CALLER)
        assert numbered == list(range(run.event_count + 1, ended.event_count + 1))
        ids = [(event.payload or {})["message_id"] for event in events if event.kind == "token_chunk"]
        assert {message["id"] for message in output_of(ended)["messages"]} >= set(ids)
        assert (ended.spend["input_tokens"], ended.spend["output_tokens"]) == (30, 15)
        assert model.streams == 3


async def test_nobody_streams_for_those_who_do_not_ask(platform_dsn: str) -> None:
    model = Trickle()
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(model))) as replica:
        run = await replica.create("speaker", {"messages": ["Go."]})
        events = [event async for event in replica.engine.watch(run, run.event_count)]
        assert {event.kind for event in events} <= {"node_completed", "state_changed", "run_ended"}
        assert model.streams == 0


async def test_tokens_that_a_stream_does_not_tell_are_estimated(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(Trickle(usage=False)))) as replica:
        run = await replica.create("speaker", {"messages": ["Go on, then."]}, chunks=True)
        events = await told(replica, run, fresh=True)
        ended = await replica.store.get(run.run_id, CALLER)
        assert ended.spend["input_tokens"] > 0
        assert ended.spend["output_tokens"] > 0
        [call] = next(event.payload for event in events if event.kind == "node_completed")["calls"]  # type: ignore[index]
        assert call["estimated"] is True


async def test_watchers_elsewhere_are_told_too(platform_dsn: str) -> None:
    gate = asyncio.Event()
    model = Trickle(gates=[gate])
    builder = speaking(model)
    async with hosted_replica(platform_dsn, loaded("speaker", builder)) as here:
        async with hosted_replica(platform_dsn, loaded("speaker", builder), runs=0) as elsewhere:
            run = await elsewhere.create("speaker", {"messages": ["Go."]}, chunks=True)
            assert run.state is RunState.PENDING
            # It comes while the model still speaks.
            events = await told(elsewhere, run, opens=gate)
        # Of the last chunks the end of the run may have come first, which has the whole.
        [(node, text)] = said(events)
        assert node == "speak"
        assert "".join(WORDS).startswith(text)
        ended = await here.store.get(run.run_id, CALLER)
        assert output_of(ended)["messages"][-1]["content"] == "".join(WORDS)


async def test_who_begins_to_watch_elsewhere_hears_the_calls_that_begin_then(platform_dsn: str) -> None:
    speaks, gate, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()
    model = Trickle(gates=[speaks])

    async def wait(state: MessagesState) -> dict[str, Any]:
        del state
        begun.set()
        await gate.wait()
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("wait", wait)
    builder.add_node("speak", speaking(model).compile())
    builder.add_edge(START, "wait")
    builder.add_edge("wait", "speak")
    async with (
        hosted_replica(platform_dsn, loaded("speaker", builder)) as here,
        hosted_replica(platform_dsn, loaded("speaker", builder), runs=0) as elsewhere,
    ):
        run = await here.create("speaker", {"messages": ["Go."]})
        await asyncio.wait_for(begun.wait(), TIMEOUT_S)
        watching = asyncio.create_task(told(elsewhere, run, opens=speaks))
        async with asyncio.timeout(TIMEOUT_S):
            while not here.events.wants_chunks(run.run_id):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        gate.set()
        [(node, text)] = said(await watching)
        assert node == "speak/speak"
        assert "".join(WORDS).startswith(text)


async def test_who_comes_in_the_middle_of_a_message_is_told_it_from_its_first_word(platform_dsn: str) -> None:
    gate, heard = asyncio.Event(), asyncio.Event()
    builder = speaking(Trickle(gates=[gate]))
    async with (
        hosted_replica(platform_dsn, loaded("speaker", builder)) as here,
        hosted_replica(platform_dsn, loaded("speaker", builder), runs=0) as elsewhere,
    ):
        run = await here.create("speaker", {"messages": ["Go."]}, chunks=True)
        watching = [asyncio.create_task(told(here, run, opens=heard, fresh=True))]
        await asyncio.wait_for(heard.wait(), TIMEOUT_S)
        # Two of them at the other replica, one after the other: the second asks for what the first was told.
        for replica in (here, elsewhere, elsewhere):
            joined = asyncio.Event()
            watching.append(asyncio.create_task(told(replica, run, opens=joined)))
            await asyncio.wait_for(joined.wait(), TIMEOUT_S)
        gate.set()
        for events in await asyncio.gather(*watching):
            [(node, text)] = said(events)
            assert node == "speak"
            assert text in ("".join(WORDS), "".join(WORDS[:2]))  # the rest may come behind the end, elsewhere


def asking_first(model: Trickle) -> Any:
    """A graph that asks a person and then a model."""

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda _: {"messages": [interrupt("Go on?")]})
    builder.add_node("speak", speak)
    return builder.add_edge(START, "ask").add_edge("ask", "speak")


@pytest.mark.parametrize("way", ["created", "answered", "forked"])
@pytest.mark.parametrize("comes", ["to who had it begin", "to who executes it"])
async def test_a_run_that_others_begin_is_heard_from_its_first_word_by_who_comes_later(
    platform_dsn: str, way: str, comes: str
) -> None:
    gate = asyncio.Event()
    model = Trickle()
    graph = loaded("speaker", speaking(model) if way == "created" else asking_first(model))
    async with (
        hosted_replica(platform_dsn, graph) as here,
        hosted_replica(platform_dsn, graph, runs=0) as asked,
    ):
        if way == "created":
            model.gates.append(gate)
            run = await asked.create("speaker", {"messages": ["Go."]}, chunks=True)
        else:
            asking = await here.run("speaker", {"messages": ["Go."]})
            assert asking.input_request is not None
            answer = Answer(asking.run_id, asking.input_request.input_request_id, "yes")
            if way == "answered":
                model.gates.append(gate)
                await asked.engine.answer(CALLER, answer, chunks=True)
                run = await asked.store.get(asking.run_id, CALLER)
            else:
                await here.engine.answer(CALLER, answer)
                await here.left_off(await here.store.get(asking.run_id, CALLER))
                model.gates.append(gate)
                states = RunStates(asked.pools.calls, make_serde(), asked.store, asked.agents)
                run = await states.fork(CALLER, NewFork(asking.run_id, 1, chunks_asked=True))
                await asked.engine.tell_of_fork(run, chunks=True)
        async with asyncio.timeout(TIMEOUT_S):
            while model.gates:  # noqa: ASYNC110 - a model tells nobody that it speaks
                await asyncio.sleep(0.01)
        events = await told(here if comes == "to who executes it" else asked, run, opens=gate)
        [(node, text)] = said(events)
        assert node == "speak"
        # Elsewhere the last words may come behind the end.
        assert text in ("".join(WORDS), "".join(WORDS[:2]))


async def test_whoever_claims_a_run_knows_that_its_chunks_are_asked_for(first: OwnerStore, second: OwnerStore) -> None:
    asked, _ = await first.create(new_run(chunks_asked=True), claim=False)
    other, _ = await first.create(new_run(), claim=False)

    async def claimed() -> dict[str, RunRecord]:
        return {run.run_id: run for run in await second.upkeep.claim_pending(10, AGENTS)}

    runs = await claimed()
    assert {run_id: run.chunks_asked for run_id, run in runs.items()} == {asked.run_id: True, other.run_id: False}
    await second.release(runs[other.run_id])
    await first.ask_chunks(other.run_id)
    assert (await claimed())[other.run_id].chunks_asked


async def until_registered(replica: HostedReplica, *expected: RunRecord) -> None:
    """Waits until these are the runs that replicas are registered for."""
    ids = {each.run_id for each in expected}
    async with replica.pools.calls.connection() as connection:
        while True:
            rows = await (await connection.execute("SELECT run_id::text FROM platform.watches")).fetchall()
            if {run_id for (run_id,) in rows} == ids:
                return


async def test_what_was_asked_for_where_a_run_is_executed_is_not_kept(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nor is it found by counting what is registered.
    monkeypatch.setattr(watches, "ASK_INTERVAL_S", 3600.0)

    async with (
        hosted_replica(platform_dsn, loaded("speaker", speaking(Trickle())), runs=0) as here,
        asyncio.timeout(TIMEOUT_S),
    ):
        watched = await here.create("speaker", {"messages": ["Go."]})
        watching = asyncio.create_task(told(here, watched))
        await until_registered(here, watched)
        # The run is claimed before anybody looks at what has changed.
        monkeypatch.setattr(watches, "GATHER_S", 0.5)
        run = await here.create("speaker", {"messages": ["Go."]}, chunks=True)
        here.events.begins(run.run_id)
        await until_registered(here, watched)
        watching.cancel()


async def test_who_does_not_come_is_not_waited_for(platform_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        hosted_replica(platform_dsn, loaded("speaker", speaking(Trickle())), runs=0) as asked,
        asyncio.timeout(TIMEOUT_S),
    ):
        watched = await asked.create("speaker", {"messages": ["Go."]})
        watching = asyncio.create_task(told(asked, watched))
        await until_registered(asked, watched)
        monkeypatch.setattr(stream_of_events, "PRESENTLY_S", 3600)
        run = await asked.create("speaker", {"messages": ["Go."]}, chunks=True)
        await until_registered(asked, watched, run)
        monkeypatch.setattr(stream_of_events, "PRESENTLY_S", 0.1)
        asked.events.asked_presently(run.run_id)
        await until_registered(asked, watched)
        watching.cancel()


async def test_what_no_longer_stands_is_told_though_chunks_are_left_out(
    platform_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_post, "MOST_PAYLOADS", 1)
    gate = asyncio.Event()

    async def wait(state: MessagesState) -> dict[str, Any]:
        del state
        await gate.wait()
        return {}

    builder = StateGraph(MessagesState).add_node("wait", wait).add_edge(START, "wait")
    async with (
        hosted_replica(platform_dsn, loaded("waiter", builder)) as here,
        hosted_replica(platform_dsn, loaded("waiter", builder), runs=0) as elsewhere,
    ):
        run = await here.create("waiter", {"messages": []})
        watching = asyncio.create_task(told(elsewhere, run))
        async with asyncio.timeout(TIMEOUT_S):
            while not here.events.wants_chunks(run.run_id):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        events = EventStream(here.pools.calls)
        post = ChunkPost(here.pools, events)
        events.asked_elsewhere(run.run_id)
        # What comes of an earlier claim says nothing of who asks now.
        events.tell(run.epoch - 1, Event.unnumbered(run.run_id, "tokens_reset", {"node": "late", "cause": "rerun"}))
        await post.send_waiting()
        assert events.wants_chunks(run.run_id)
        for number in range(10):
            spoken = {"node": "wait", "message_id": f"{number}", "provisional": False, "offset": 0, "text": "x" * 2000}
            events.tell(run.epoch, Event.unnumbered(run.run_id, "token_chunk", spoken))
        events.tell(run.epoch, Event.unnumbered(run.run_id, "tokens_reset", {"node": "wait", "cause": "rerun"}))
        await post.send_waiting()
        await post.send_waiting()
        gate.set()
        heard = [event.payload for event in await watching if event.kind == "tokens_reset" and event.payload]
        # Behind each claim all is void; this is what the node has said of itself, and that some of it was left out.
        assert {"node": "wait", "cause": "rerun"} in heard
        assert {"node": "", "cause": "dropped"} in heard
        assert {"node": "late", "cause": "rerun"} not in heard


async def test_a_node_that_runs_again_elsewhere_is_heard_from_its_beginning(platform_dsn: str) -> None:
    heard = asyncio.Event()
    model = Trickle(gates=[asyncio.Event(), heard])
    builder = speaking(model)
    async with hosted_replica(platform_dsn, loaded("speaker", builder), runs=0) as watcher:
        run = await watcher.create("speaker", {"messages": ["Go."]})
        watching = asyncio.create_task(told(watcher, run, opens=heard))
        async with hosted_replica(platform_dsn, loaded("speaker", builder)):
            await asyncio.wait_for(heard.wait(), TIMEOUT_S)
        # It has left in the middle of the message.
        heard.clear()
        async with hosted_replica(platform_dsn, loaded("speaker", builder)):
            events = await watching
    [(node, text)] = said(events)
    assert node == "speak"
    assert "".join(WORDS).startswith(text)
    assert len({(event.payload or {})["message_id"] for event in events if event.kind == "token_chunk"}) == 2


async def test_a_node_that_is_tried_again_is_heard_from_its_beginning(platform_dsn: str) -> None:
    model = Trickle(breaks=1)
    retried = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=RuntimeError)
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(model, retry_policy=retried))) as replica:
        run = await replica.create("speaker", {"messages": ["Go."]}, chunks=True)
        events = await told(replica, run, fresh=True)
    assert {"node": "speak", "cause": "rerun"} in [event.payload for event in events if event.kind == "tokens_reset"]
    assert said(events) == [("speak", "".join(WORDS))]


async def test_who_reads_on_when_all_is_over_is_told_what_was_said_and_what_no_longer_stands(platform_dsn: str) -> None:
    gate = asyncio.Event()
    model = Trickle(breaks=1, gates=[gate])
    retried = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=RuntimeError)
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(model, retry_policy=retried))) as replica:
        run = await replica.create("speaker", {"messages": ["Go."]}, chunks=True)
        watching = replica.engine.watch(run, run.event_count, chunks=True, fresh=True)
        async with asyncio.timeout(TIMEOUT_S):
            async for event in watching:
                if event.kind == "token_chunk":
                    break
            gate.set()
            await told(replica, run)
            replica.events.look([run.run_id])  # as when the replica lets go of it
            late = []
            async for event in watching:
                late.append(event)
                replica.events.publish([event])  # as by who executes it, after it was read
    kinds = [event.kind for event in late]
    assert [event.payload for event in late if event.kind == "tokens_reset"] == [{"node": "speak", "cause": "rerun"}]
    assert said(late[kinds.index("tokens_reset") :]) == [("speak", "".join(WORDS))]
    assert kinds.index("node_completed") > max(at for at, kind in enumerate(kinds) if kind == "token_chunk")
    assert late[-1].is_last


@pytest.mark.parametrize("length", [1, 1999])
async def test_a_slow_reader_is_told_less_and_that_it_is(platform_dsn: str, length: int) -> None:
    async with hosted_replica(platform_dsn, loaded("speaker", speaking(Trickle()))) as replica:
        run = await replica.create("speaker", {"messages": ["Go."]})
        run = await replica.left_off(run)
        stream = EventStream(replica.pools.calls)
        going_on = RunRecord(**{**vars(run), "state": RunState.RUNNING})
        watching = stream.watch(going_on, run.event_count, fresh=True, chunks=True)
        reading = asyncio.ensure_future(anext(watching))
        async with asyncio.timeout(TIMEOUT_S):
            while not stream.wants_chunks(run.run_id):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0)
        sent = 4 * MOST_WAITING // length
        for number in range(sent):
            payload = {"node": "speak", "message_id": "m", "offset": number * length, "text": "x" * length}
            stream.tell(1, Event.unnumbered(run.run_id, "token_chunk", payload | {"provisional": False}))
        read = [await reading]
        while read[-1].kind == "token_chunk":
            read.append(await anext(watching))
        assert (read[-1].payload or {})["cause"] == "dropped"
        text = "".join((event.payload or {}).get("text", "") for event in read)
        assert MOST_WAITING // 2 <= len(text) <= 2 * MOST_WAITING
        late = {"node": "speak", "message_id": "m", "offset": sent * length, "text": "end", "provisional": False}
        stream.tell(1, Event.unnumbered(run.run_id, "token_chunk", late))
        assert (await anext(watching)).payload == late
        await watching.aclose()  # type: ignore[attr-defined]
