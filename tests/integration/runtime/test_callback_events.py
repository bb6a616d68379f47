"""What LangChain's callbacks tell in a hosted graph: as `astream_events` tells it of the graph by itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import operator
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from signalbox.v1 import runs_pb2, runs_pb2_grpc
from typing_extensions import TypedDict

from services.kit.identity.caller import Caller
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.api.wire import event_proto
from services.runtime.engine.events import CALLED_PAGE, Event
from services.runtime.hosted.callback_events import MOST_OF_STEP
from services.runtime.hosted.custom_writes import MOST_OF_WRITE
from tests.fixtures.events_alone import alone, comparable
from tests.fixtures.hosted import HostedReplica, hosted_replica, loaded
from tests.fixtures.replica import gateway_word, serving

TIMEOUT_S = 60.0


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]


@dataclass
class Heard:
    """What a watcher has been told, as a client puts it together: each event of a claim once, in its order."""

    by_claim: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))

    def take(self, event: Event) -> None:
        payload = event.payload or {}
        for part in [payload] if event.kind == "callback_events" else payload.get("callback_events", ()):
            for number, data in enumerate(part["data"], part["offset"]):
                about = json.loads(part["about"] or "{}")
                found = {**about, "data": json.loads(data) if isinstance(data, str) else data}
                assert self.by_claim[part["claim"]].setdefault(number, found) == found

    @property
    def all(self) -> list[dict[str, Any]]:
        found = [[event for _, event in sorted(events.items())] for events in self.by_claim.values()]
        for events, each in zip(self.by_claim.values(), found, strict=True):
            assert sorted(events) == list(range(len(each)))
        return list(itertools.chain.from_iterable(found))


async def told(replica: HostedReplica, run: Any, after: int | None = None, **watch: Any) -> tuple[Heard, list[Event]]:
    heard, events = Heard(), []
    begun = run.event_count if after is None else after
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, begun, chunks=True, callback_events=True, **watch):
            events.append(event)
            heard.take(event)
    return heard, events


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        return [Document(f"about {query}")]


def model(*said: str | AIMessage) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter([AIMessage(each) if isinstance(each, str) else each for each in said]))


class Calling(GenericFakeChatModel):
    """A model that streams calls of tools, too."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        del tools, kwargs
        return self

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        message = next(self.messages)
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            for name, args in ((call["name"], '{"city": '), (None, '"Ulm"}')):
                part = {"name": name, "args": args, "id": call["id"] if name else None, "index": 0}
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))
        for word in str(message.content).split() if isinstance(message, AIMessage) else ():
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))


async def plain(state: Notes) -> Any:
    del state
    return {"notes": ["plain"]}


def in_a_thread(state: Notes) -> Any:
    del state
    return {"notes": ["thread"]}


async def tells(state: Notes, config: RunnableConfig) -> Any:
    del state
    await adispatch_custom_event("progress", {"done": 0.5}, config=config)
    return {"notes": ["told"]}


async def looks_up(state: Notes, config: RunnableConfig) -> Any:
    del state
    found = await Shelf().ainvoke("ducks", config)
    twice: Runnable[str, str] = RunnableLambda(str.upper) | RunnableLambda(str.lower)
    return {"notes": [found[0].page_content, await twice.ainvoke("Ducks", config)]}


async def calls(state: Notes, config: RunnableConfig) -> Any:
    del state
    return {"notes": [await weather.ainvoke({"city": "Ulm"}, config)]}


def joins(state: Notes) -> Any:
    return Command(update={"notes": [str(len(state["notes"]))]}, goto="graph")


def speaks(said: str) -> Any:
    says = model(said)

    async def speak(state: Notes) -> Any:
        answer = await says.ainvoke([("user", state["notes"][0])])
        return {"notes": [str(answer.content)]}

    return speak


def choose(state: Notes) -> list[str]:
    del state
    return ["left", "right"]


def every_kind() -> Any:
    """A graph with all that callbacks tell of, new models with it."""
    inner = StateGraph(Notes).add_node("inside", plain).add_node("then", speaks("from inside"))
    inner.add_edge(START, "inside").add_edge("inside", "then")
    builder = StateGraph(Notes).add_node("plain", plain).add_node("speak", speaks("Hello to you, dear reader"))
    builder.add_node("tells", tells).add_node("looks_up", looks_up).add_node("calls", calls)
    builder.add_node("left", in_a_thread).add_node("right", plain)
    builder.add_node("join", joins, destinations=("graph",)).add_node("graph", inner.compile())
    for start, end in itertools.pairwise([START, "plain", "speak", "tells", "looks_up", "calls"]):
        builder.add_edge(start, end)
    builder.add_conditional_edges("calls", choose, ["left", "right"])
    builder.add_edge(["left", "right"], "join")
    return builder


def agent() -> Any:
    calls = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Ulm"}, "id": "call_1"}])
    made = Calling(messages=iter([calls, AIMessage("It is sunny in Ulm")]))
    return create_agent(made, [weather])


def chain() -> Any:
    """A graph whose node is a chain, which streams."""

    told: Runnable[Any, Any] = RunnableLambda(lambda state: state["messages"]) | model("word by word")
    shown: Runnable[Any, Any] = told | RunnableLambda(lambda message: {"messages": [message]})
    return StateGraph(MessagesState).add_node("chain", shown).add_edge(START, "chain")


@pytest.mark.parametrize("make", [every_kind, agent, chain])
async def test_events_are_those_of_the_graph_alone_at_any_replica_and_when_all_is_over(
    platform_dsn: str, make: Any
) -> None:
    given = {"notes": ["first"]} if make is every_kind else {"messages": [{"role": "user", "content": "Hi"}]}
    graph = make()
    expected = comparable(await alone(graph.compile() if hasattr(graph, "compile") else graph, given))
    async with (
        hosted_replica(platform_dsn, loaded("called", make())) as here,
        hosted_replica(platform_dsn, loaded("called", make()), runs=0) as elsewhere,
    ):
        run = await here.create("called", given, chunks=True, callback_events=True)
        heard = await asyncio.gather(told(here, run, fresh=True), told(elsewhere, run))
        ended = await here.left_off(run)
        assert ended.state == "SUCCEEDED", ended.error
        late = await told(elsewhere, ended, 0)
        for found, _ in (*heard, late):
            assert comparable(found.all) == expected
            assert len(found.by_claim) == 1


def fails() -> Any:
    """A graph whose tool raises, whose first try is in vain, and that raises in the end."""
    tries = itertools.count()

    @tool
    def breaks(how: str) -> str:
        """Raises."""
        raise KeyError(f"secret of {how}")

    async def again(state: Notes, config: RunnableConfig) -> Any:
        del state
        with suppress(KeyError):
            await breaks.ainvoke({"how": "much"}, config)
        if not next(tries):
            raise RuntimeError("broken off")
        return {"notes": ["again"]}

    def raises(state: Notes) -> Any:
        raise ValueError(state["notes"])

    retried = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=RuntimeError)
    builder = StateGraph(Notes).add_node("again", again, retry_policy=retried).add_node("raises", raises)
    return builder.add_edge(START, "again").add_edge("again", "raises")


async def test_an_attempt_in_vain_is_told_as_langgraph_tells_it_and_of_errors_no_words(platform_dsn: str) -> None:
    expected = comparable(await alone(fails().compile(), {"notes": []}))
    async with hosted_replica(platform_dsn, loaded("called", fails())) as replica:
        ended = await replica.run("called", {"notes": []}, callback_events=True)
        assert ended.state == "FAILED"
        heard, events = await told(replica, ended, 0)
    assert comparable(heard.all) == expected
    assert [each["data"]["error"] for each in heard.all if each["event"] == "on_tool_error"] == [
        {"error": "KeyError"}
    ] * 2
    assert "secret" not in json.dumps([event.payload for event in events])


def asks() -> Any:
    def ask(state: Notes) -> Any:
        del state
        return {"notes": [interrupt("What?")]}

    return (
        StateGraph(Notes)
        .add_node("plain", plain)
        .add_node("ask", ask)
        .add_edge(START, "plain")
        .add_edge("plain", "ask")
    )


async def test_a_question_is_told_with_it_and_its_answer_is_another_claim(platform_dsn: str) -> None:
    graph, thread = asks().compile(checkpointer=InMemorySaver()), RunnableConfig(configurable={"thread_id": "1"})
    expected = [await alone(graph, {"notes": []}, thread)]
    async with hosted_replica(platform_dsn, loaded("called", asks())) as replica:
        asking = await replica.run("called", {"notes": []}, callback_events=True)
        heard, _ = await told(replica, asking, 0)
        assert comparable(heard.all) == comparable(expected[0])
        ended = await replica.answer(asking, "yes")
        whole, _ = await told(replica, ended, 0)
    assert ended.state == "SUCCEEDED"
    expected.append(await alone(graph, Command(resume="yes"), thread))
    after = whole.all[len(heard.all) :]
    # The platform hands an answer on by the id of its interrupt.
    assert (
        after[0]["data"].pop("input")["resume"].popitem()[1] == expected[1][0]["data"].pop("input")["resume"] == "yes"
    )
    assert comparable(after) == comparable(expected[1])


@pytest.mark.parametrize("blocks", [False, True])
async def test_an_event_of_a_word_comes_before_the_word_itself(platform_dsn: str, *, blocks: bool) -> None:
    says = model("one two three")

    async def speak(state: Notes) -> Any:
        del state
        await says.ainvoke("say")
        return {"notes": ["done"]}

    def speak_in_a_thread(state: Notes) -> Any:
        del state
        says.invoke("say")
        return {"notes": ["done"]}

    builder = StateGraph(Notes).add_node("speak", speak_in_a_thread if blocks else speak).add_edge(START, "speak")
    async with hosted_replica(platform_dsn, loaded("called", builder)) as replica:
        run = await replica.create("called", {"notes": []}, chunks=True, callback_events=True)
        _, events = await told(replica, run, fresh=True)
    kinds = [event.kind for event in events if event.kind == "token_chunk" or "_model_stream" in str(event.payload)]
    # Its end follows, and what is kept.
    assert kinds[:2] == ["callback_events", "token_chunk"]


async def test_of_a_run_that_nobody_asked_it_of_nothing_is_told_or_kept(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("called", every_kind())) as replica:
        run = await replica.create("called", {"notes": ["first"]}, chunks=True)
        heard, _ = await told(replica, run, fresh=True)
        late, events = await told(replica, await replica.left_off(run), 0)
        assert not heard.by_claim
        assert not late.by_claim
        assert events[-1].is_last
        asked = await replica.create("called", {"notes": ["first"]}, chunks=True, callback_events=True)
        async with asyncio.timeout(TIMEOUT_S):
            told_ = [event async for event in replica.engine.watch(asked, asked.event_count, chunks=True, fresh=True)]
        # Who watches, and does not ask, is not told.
        assert not any(event.kind == "callback_events" for event in told_)
        assert not any(event_proto(event, None).callback_events for event in told_ if not event.is_last)


async def test_what_may_be_large_is_read_page_by_page_and_by_nobody_who_does_not_ask(platform_dsn: str) -> None:
    names = [f"n{number}" for number in range(2 * CALLED_PAGE)]
    graph = StateGraph(Notes).add_sequence([(name, plain) for name in names]).add_edge(START, names[0])
    async with hosted_replica(platform_dsn, loaded("called", graph)) as replica:
        ended = await replica.run("called", {"notes": []}, callback_events=True)
        heard, events = await told(replica, ended, 0)
        read = [event async for event in replica.engine.watch(ended, 0, chunks=True)]
    begun = [each["name"] for each in heard.all if each["event"] == "on_chain_start"]
    assert [name for name in begun if name in names] == names
    sequences = list(range(1, ended.event_count + 1))
    assert [[event.sequence for event in each if event.sequence] for each in (events, read)] == [sequences] * 2
    assert not any("callback_events" in (event.payload or {}) for event in read)


async def test_what_a_graph_keeps_to_itself_is_not_told(platform_dsn: str) -> None:
    says, silent = model("out loud"), model("quietly").with_config(tags=["nostream"])

    async def speak(state: Notes) -> Any:
        del state
        await silent.ainvoke("say")
        await says.ainvoke("say")
        return {"notes": ["done"]}

    builder = StateGraph(Notes).add_node("speak", speak).add_edge(START, "speak")
    async with hosted_replica(platform_dsn, loaded("called", builder)) as replica:
        ended = await replica.run("called", {"notes": []}, callback_events=True)
        heard, _ = await told(replica, ended, 0)
    words = [each["data"]["chunk"]["content"] for each in heard.all if each["event"] == "on_chat_model_stream"]
    assert "".join(words) == "out loud"


async def test_what_is_too_long_or_too_much_is_left_out_and_said(platform_dsn: str) -> None:
    class Odd:
        pass

    async def many(state: Notes, config: RunnableConfig) -> Any:
        del state
        await adispatch_custom_event("odd", {"odd": Odd(), "nan": float("nan")}, config=config)
        await adispatch_custom_event("long", "x" * MOST_OF_WRITE, config=config)
        for number in range(5000):
            await adispatch_custom_event("progress", {"number": number, "text": "y" * 1000}, config=config)
        return {"notes": ["done"]}

    builder = StateGraph(Notes).add_node("many", many).add_node("plain", plain)
    builder.add_edge(START, "many").add_edge("many", "plain")
    async with hosted_replica(platform_dsn, loaded("called", builder)) as replica:
        ended = await replica.run("called", {"notes": []}, callback_events=True)
        assert ended.state == "SUCCEEDED", ended.error
        heard, events = await told(replica, ended, 0)
    custom = [each for each in heard.all if each.get("event") == "on_custom_event"]
    assert [each["data"] for each in custom[:2]] == [
        {"odd": {"left_out": "not_json"}, "nan": "nan"},
        {"left_out": "too_long"},
    ]
    assert [each["data"]["number"] for each in custom[2:]] == list(range(len(custom) - 2))
    assert [each["data"] for each in heard.all if "event" not in each] == [{"left_out": "too_much"}]
    sizes = [len(json.dumps((event.payload or {}).get("callback_events", ()))) for event in events]
    assert 0.9 * MOST_OF_STEP < max(sizes) < 1.5 * MOST_OF_STEP
    # What comes with the next step is told again.
    assert [each["event"] for each in heard.all[-5:]][-2:] == ["on_chain_stream", "on_chain_end"]


def gated(gate: asyncio.Event) -> Any:
    """A graph whose second node tells something, waits for a gate, and tells once more."""

    async def work(state: Notes, config: RunnableConfig) -> Any:
        del state
        for number in range(200):
            await adispatch_custom_event("progress", {"number": number}, config=config)
        await gate.wait()
        await adispatch_custom_event("progress", {"number": 200}, config=config)
        return {"notes": ["done"]}

    builder = StateGraph(Notes).add_node("plain", plain).add_node("work", work)
    return builder.add_edge(START, "plain").add_edge("plain", "work")


async def live(replica: HostedReplica, run: Any, at_gate: asyncio.Event) -> Heard:
    heard = Heard()
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, run.event_count, chunks=True, callback_events=True):
            heard.take(event)
            if any(each["data"] == {"number": 199} for events in heard.by_claim.values() for each in events.values()):
                at_gate.set()
    return heard


async def test_events_are_told_while_the_node_runs_also_to_who_comes_late_and_elsewhere(platform_dsn: str) -> None:
    gate = asyncio.Event()
    async with (
        hosted_replica(platform_dsn, loaded("called", gated(gate))) as here,
        hosted_replica(platform_dsn, loaded("called", gated(gate)), runs=0) as elsewhere,
    ):
        run = await here.create("called", {"notes": []}, callback_events=True)
        first = asyncio.Event()
        watching = [asyncio.create_task(live(here, run, first))]
        await asyncio.wait_for(first.wait(), TIMEOUT_S)
        late = [asyncio.Event() for _ in range(20)]
        watching += [
            asyncio.create_task(live(each, run, at_gate))
            for each, at_gate in zip(itertools.cycle([here, elsewhere]), late, strict=False)
        ]
        for each in late:
            await asyncio.wait_for(each.wait(), TIMEOUT_S)
        gate.set()
        told_ = [heard.all for heard in await asyncio.gather(*watching)]
    assert all(each == told_[0] for each in told_)
    assert [each["data"]["number"] for each in told_[0] if each["event"] == "on_custom_event"] == list(range(201))


async def test_who_goes_on_with_a_run_tells_anew_what_was_not_kept(platform_dsn: str) -> None:
    gate = asyncio.Event()
    async with hosted_replica(platform_dsn, loaded("called", gated(gate)), runs=0) as watcher:
        run = await watcher.create("called", {"notes": []}, callback_events=True)
        first = asyncio.Event()
        watching = asyncio.create_task(live(watcher, run, first))
        async with hosted_replica(platform_dsn, loaded("called", gated(gate))):
            await asyncio.wait_for(first.wait(), TIMEOUT_S)
        gate.set()
        async with hosted_replica(platform_dsn, loaded("called", gated(gate))):
            heard = await asyncio.wait_for(watching, TIMEOUT_S)
        late, _ = await told(watcher, await watcher.left_off(run), 0)
    told_ = [[(each["event"], each["name"]) for each in events.values()] for events in heard.by_claim.values()]
    assert [each[0] for each in told_] == [("on_chain_start", "LangGraph")] * 2
    assert told_[1].count(("on_custom_event", "progress")) == 201
    # Of the claim that came to no end, what came with its last step.
    assert [len(events) for events in late.by_claim.values()][1] == len(told_[1])
    assert ("on_custom_event", "progress") not in [
        (each["event"], each["name"]) for each in next(iter(late.by_claim.values())).values()
    ]


async def test_who_lacks_a_role_of_the_run_or_is_told_no_words_is_told_no_events(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("called", every_kind())) as replica:
        owner = Caller("27", frozenset({"reader"}))
        run = await replica.create("called", {"notes": ["secret"]}, callback_events=True, caller=owner)
        async for _ in replica.engine.watch(run, run.event_count):
            pass
        unused: Any = SimpleNamespace(here={})

        def make(callers: Callers) -> Registration:
            servicer = RunServicer(replica.engine, replica.store, unused, unused, callers, unused)
            return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

        async with serving(make) as channel:
            stub: runs_pb2_grpc.RunServiceAsyncStub = runs_pb2_grpc.RunServiceStub(channel)

            async def heard(*roles: str, words: bool) -> str:
                request = runs_pb2.WatchRunRequest(run_id=run.run_id, token_chunks=words, callback_events=True)
                watch = stub.WatchRun(request, metadata=gateway_word("27", *roles))
                parts = [part async for told_ in watch for part in told_.event.callback_events]
                return "".join(data.json for part in parts for data in part.data)

            assert "secret" in await heard("reader", words=True)
            assert not await heard(words=True)
            # So the gateway asks where something is masked.
            assert not await heard("reader", words=False)
