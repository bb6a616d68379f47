"""What nodes write to LangGraph's stream writer: told while they run, on any replica, and with what they bring."""

from __future__ import annotations

import asyncio
import itertools
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, Send, StreamWriter, interrupt
from pydantic import BaseModel, computed_field
from typing_extensions import TypedDict

from services.runtime.api.wire import event_proto
from services.runtime.engine.events import Event
from services.runtime.hosted.custom_writes import MOST_OF_ATTEMPT, MOST_OF_WRITE
from services.runtime.hosted.definition import HostedPolicy
from tests.fixtures.hosted import HostedReplica, hosted_replica, loaded

TIMEOUT_S = 60.0


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]


@dataclass
class Heard:
    """What a watcher has been told of writes, as a client puts it together."""

    by_attempt: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        own = [event.payload or {}] if event.kind == "custom_writes" else (event.payload or {}).get("custom_writes", ())
        for part in own:
            known = self.by_attempt.setdefault(part["attempt"], [])
            if part["offset"] <= len(known):
                known += [(part["node"], _read(each)) for each in part["writes"][len(known) - part["offset"] :]]

    @property
    def all(self) -> list[tuple[str, Any]]:
        return list(itertools.chain.from_iterable(self.by_attempt.values()))


def _read(write: Any) -> Any:
    return json.loads(write) if isinstance(write, str) else write


async def told(replica: HostedReplica, run: Any, after: int | None = None, **watch: Any) -> tuple[Heard, list[Event]]:
    heard, events = Heard(), []
    async with asyncio.timeout(TIMEOUT_S):
        begun = run.event_count if after is None else after
        async for event in replica.engine.watch(run, begun, chunks=True, **watch):
            events.append(event)
            heard.take(event)
    return heard, events


async def alone(graph: Any, given: Any) -> list[tuple[str, Any]]:
    """What LangGraph by itself tells of the graph's writes, by the names of nodes that a graph inside is of."""
    found = []
    async for namespace, value in graph.astream(given, stream_mode="custom", subgraphs=True):
        found.append(("/".join(each.partition(":")[0] for each in namespace), value))
    return found


def every_way() -> Any:
    """A graph that writes in each way that LangGraph has: also from threads, inner graphs, and many at once."""

    async def by_call(state: Notes) -> Any:
        del state
        get_stream_writer()({"way": "call"})
        return {"notes": ["call"]}

    def by_argument(state: Notes, writer: StreamWriter) -> Any:
        del state
        writer({"way": "argument"})
        writer("text")
        return {"notes": ["argument"]}

    async def by_runtime(state: Notes, runtime: Runtime[Any]) -> Any:
        del state
        runtime.stream_writer([1, None])
        return {"notes": ["runtime"]}

    inner = StateGraph(Notes).add_node("inside", by_call).add_edge(START, "inside").compile()

    async def calls(state: Notes) -> Any:
        get_stream_writer()("before")
        await inner.ainvoke(state)
        get_stream_writer()("behind")
        return {"notes": ["calls"]}

    def each(state: Any) -> Any:
        get_stream_writer()(state["number"])
        return {"notes": [str(state["number"])]}

    builder = StateGraph(Notes)
    builder.add_node("by_call", by_call)
    builder.add_node("by_argument", by_argument)
    builder.add_node("by_runtime", by_runtime)
    builder.add_node("graph", inner)
    builder.add_node("calls", calls)
    builder.add_node("each", each)
    builder.add_edge(START, "by_call")
    builder.add_edge("by_call", "by_argument")
    builder.add_edge("by_argument", "by_runtime")
    builder.add_edge("by_runtime", "graph")
    builder.add_edge("graph", "calls")
    builder.add_conditional_edges("calls", lambda _: [Send("each", {"number": n}) for n in range(5)], ["each"])
    return builder


def sorted_(found: list[tuple[str, Any]]) -> list[str]:
    return sorted(json.dumps(each) for each in found)


async def test_what_nodes_write_is_told_as_langgraph_tells_it_at_any_replica_and_when_all_is_over(
    platform_dsn: str,
) -> None:
    expected = await alone(every_way().compile(), {"notes": []})
    assert len(expected) == 13
    async with (
        hosted_replica(platform_dsn, loaded("writer", every_way())) as here,
        hosted_replica(platform_dsn, loaded("writer", every_way()), runs=0) as elsewhere,
    ):
        run = await here.create("writer", {"notes": []}, chunks=True)
        heard = await asyncio.gather(told(here, run, fresh=True), told(elsewhere, run))
        late = await told(elsewhere, await here.left_off(run), 0)
        for found, _ in (*heard, late):
            outer = [(node.rpartition("/")[0], value) for node, value in found.all]
            assert sorted_(outer) == sorted_(expected)
        assert [node for node, _ in heard[0][0].all[:6]] == [
            "by_call",
            "by_argument",
            "by_argument",
            "by_runtime",
            "graph/inside",
            "calls",
        ]
        for _, events in heard:
            # Nobody who does not ask is told.
            assert not any(
                event_proto(each, None).custom_writes for each in events if each.sequence and not each.is_last
            )


def gated(gate: asyncio.Event, values: Sequence[Any]) -> Any:
    """A graph whose node writes some values, waits for a gate, and writes once more."""

    async def work(state: Notes, writer: StreamWriter) -> Any:
        del state
        for each in values:
            writer(each)
        await gate.wait()
        writer("end")
        return {"notes": ["done"]}

    return StateGraph(Notes).add_node("work", work).add_edge(START, "work")


async def live(replica: HostedReplica, run: Any, count: int, gate: asyncio.Event) -> Heard:
    """Opens a gate once so many writes were told while the node runs; returns what was told in the end."""
    heard = Heard()
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, run.event_count, chunks=True):
            heard.take(event)
            if event.kind == "custom_writes" and len(heard.all) >= count:
                gate.set()
    return heard


async def test_writes_are_told_while_the_node_runs_also_to_who_comes_late_and_elsewhere(platform_dsn: str) -> None:
    gate = asyncio.Event()
    values = [*({"n": n} for n in range(500)), {"long": '"ö' * 10_000}, "behind"]
    builder = gated(gate, values)
    async with (
        hosted_replica(platform_dsn, loaded("writer", builder)) as here,
        hosted_replica(platform_dsn, loaded("writer", builder), runs=0) as elsewhere,
    ):
        run = await here.create("writer", {"notes": []})
        opened = [asyncio.Event() for _ in range(3)]
        watching = [
            asyncio.create_task(live(each, run, len(values), open_))
            for each, open_ in zip((here, elsewhere, elsewhere), opened, strict=True)
        ]
        for each in opened:
            await asyncio.wait_for(each.wait(), TIMEOUT_S)
        gate.set()
        for heard in await asyncio.gather(*watching):
            assert heard.all == [*(("work", value) for value in values), ("work", "end")]
            assert len(heard.by_attempt) == 1


async def test_what_has_come_with_its_node_is_kept_for_nobody_who_comes_later(platform_dsn: str) -> None:
    gate = asyncio.Event()

    def first(state: Notes, writer: StreamWriter) -> Any:
        del state
        writer("first")
        return {"notes": ["first"]}

    builder = StateGraph(Notes).add_node("first", first).add_node("then", gated(gate, ["second"]).compile())
    builder.add_edge(START, "first").add_edge("first", "then")
    async with (
        hosted_replica(platform_dsn, loaded("writer", builder)) as here,
        hosted_replica(platform_dsn, loaded("writer", builder), runs=0) as elsewhere,
    ):
        run = await here.create("writer", {"notes": []})
        chunks: list[Any] = []
        async with asyncio.timeout(TIMEOUT_S):
            while "first" not in await here.steps(run):  # noqa: ASYNC110 - of a step nobody is told who does not watch
                await asyncio.sleep(0.01)
            # Nobody has watched it until now.
            async for event in elsewhere.engine.watch(run, run.event_count, chunks=True):
                chunks += [event.payload] if event.kind == "custom_writes" else []
                if chunks:
                    gate.set()
    assert {each["node"] for each in chunks} == {"then/work"}


async def test_what_is_no_json_too_long_or_too_much_is_left_out_and_said(platform_dsn: str) -> None:
    class Broken:
        pass

    class Raising(BaseModel):
        @computed_field  # type: ignore[prop-decorator]
        @property
        def share(self) -> float:
            raise ZeroDivisionError

    cycle: list[Any] = []
    cycle.append(cycle)
    said: list[Any] = [
        "x" * 10_000_000, Broken(), cycle, float("nan"), float("inf"), 2**80, {"a": {1, 2}}, b"\xff", "\x00\ud800",
        AIMessage("hi", id="1"), None, Raising(),
    ]  # fmt: skip

    late: list[StreamWriter] = []

    def odd(state: Notes, writer: StreamWriter) -> Any:
        del state
        late.append(writer)
        for each in said:
            writer(each)
        return {"notes": ["odd"]}

    def many(state: Notes, writer: StreamWriter) -> Any:
        del state
        late[0]("behind the end of its node")
        for number in range(100_000):
            writer(number)
        return {"notes": ["many"]}

    def large(state: Notes, writer: StreamWriter) -> Any:
        del state
        for _ in range(100):
            writer("y" * (MOST_OF_WRITE - 2))
        return {"notes": ["large"]}

    builder = StateGraph(Notes).add_node("odd", odd).add_node("many", many).add_node("large", large)
    for edge in ((START, "odd"), ("odd", "many"), ("many", "large")):
        builder.add_edge(*edge)
    async with hosted_replica(platform_dsn, loaded("writer", builder)) as replica:
        run = await replica.create("writer", {"notes": []}, chunks=True)
        await told(replica, run, fresh=True)
        ended = await replica.left_off(run)
        assert ended.state == "SUCCEEDED", ended.error
        heard, events = await told(replica, ended, 0)
        odd_, many_, large_ = ([value for _, value in each] for each in heard.by_attempt.values())
        left_out = [each.get("left_out") if isinstance(each, dict) else None for each in odd_]
        assert left_out[:3] == ["too_long", "not_json", "not_json"]
        assert odd_[3:9] == ["nan", "inf", str(2**80), {"a": [1, 2]}, "_w==", "  "]
        assert (odd_[9]["content"], *odd_[10:]) == ("hi", None, {"left_out": "not_json"})
        assert many_[:-1] == list(range(len(many_) - 1))
        assert many_[-1] == large_[-1] == {"left_out": "too_much"}
        sizes = [len(json.dumps((event.payload or {}).get("custom_writes", ()))) for event in events]
        assert max(sizes) < 2 * MOST_OF_ATTEMPT
        assert sum(map(len, large_[:-1])) <= MOST_OF_ATTEMPT


async def test_what_is_written_takes_nothing_of_what_a_step_may_change(platform_dsn: str) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    def write(state: Notes, writer: StreamWriter) -> Any:
        del state
        writer(deep)
        for _ in range(20):
            writer("x" * 1000)
        return {"notes": ["written"]}

    builder = StateGraph(Notes).add_node("write", write).add_edge(START, "write")
    few = HostedPolicy(max_step_bytes=10_000)
    async with hosted_replica(platform_dsn, loaded("writer", builder), policy=few) as replica:
        ended = await replica.run("writer", {"notes": []})
        assert ended.state == "SUCCEEDED", ended.error
        heard, _ = await told(replica, ended, 0)
    assert [value for _, value in heard.all] == [{"left_out": "not_json"}, *["x" * 1000] * 20]


async def test_an_attempt_writes_anew_and_what_it_wrote_before_a_question_is_kept(platform_dsn: str) -> None:
    tries = itertools.count()

    def again(state: Notes, writer: StreamWriter) -> Any:
        del state
        number = next(tries)
        writer({"try": number})
        if number == 0:
            raise RuntimeError("broken off")
        return {"notes": ["again"]}

    def ask(state: Notes, writer: StreamWriter) -> Any:
        del state
        writer("before")
        writer({"answer": interrupt("What?")})
        return {"notes": ["asked"]}

    def beside(state: Notes, writer: StreamWriter) -> Any:
        del state
        writer("beside")
        return {"notes": ["beside"]}

    retried = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=RuntimeError)
    builder = StateGraph(Notes).add_node("again", again, retry_policy=retried).add_node("ask", ask)
    builder.add_node("beside", beside)
    for edge in ((START, "again"), ("again", "ask"), ("again", "beside")):
        builder.add_edge(*edge)
    async with hosted_replica(platform_dsn, loaded("writer", builder)) as replica:
        run = await replica.create("writer", {"notes": []}, chunks=True)
        heard, events = await told(replica, run, fresh=True)
        assert heard.all[:2] == [("again", {"try": 0}), ("again", {"try": 1})]
        assert sorted(heard.all[2:]) == [("ask", "before"), ("beside", "beside")]
        assert {"node": "again", "cause": "rerun"} in [each.payload for each in events if each.kind == "tokens_reset"]
        asking = await replica.left_off(run)
        late, _ = await told(replica, asking, 0)
        # What an attempt in vain has written is not kept.
        assert late.all[0] == ("again", {"try": 1})
        assert sorted(late.all[1:]) == [("ask", "before"), ("beside", "beside")]
        ended = await replica.answer(asking, "yes")
        whole, _ = await told(replica, ended, 0)
        # As LangGraph has it, what asks runs again from its beginning, and what ended beside it does not.
        assert sorted(map(json.dumps, whole.all[1:])) == sorted(
            map(json.dumps, [("ask", "before"), ("beside", "beside"), ("ask", "before"), ("ask", {"answer": "yes"})])
        )


async def test_a_node_that_runs_again_elsewhere_writes_anew_and_that_is_said(platform_dsn: str) -> None:
    gate = asyncio.Event()
    builder = gated(gate, ["begin"])
    async with hosted_replica(platform_dsn, loaded("writer", builder), runs=0) as watcher:
        run = await watcher.create("writer", {"notes": []})
        heard, events, first = Heard(), [], asyncio.Event()

        async def watch() -> None:
            async for event in watcher.engine.watch(run, run.event_count, chunks=True):
                events.append(event)
                heard.take(event)
                if event.kind == "custom_writes":
                    first.set()

        watching = asyncio.create_task(watch())
        async with hosted_replica(platform_dsn, loaded("writer", builder)):
            await asyncio.wait_for(first.wait(), TIMEOUT_S)
        gate.set()
        async with hosted_replica(platform_dsn, loaded("writer", builder)):
            await asyncio.wait_for(watching, TIMEOUT_S)
    assert heard.all == [("work", "begin"), ("work", "begin"), ("work", "end")]
    assert [len(each) for each in heard.by_attempt.values()] == [1, 2]
    claims = [number for number, event in enumerate(events) if event.is_claim]
    assert (events[claims[-1] + 1].payload or {})["cause"] == "rerun"


async def test_what_a_node_wrote_that_failed_is_kept(platform_dsn: str) -> None:
    async def work(state: Notes, writer: StreamWriter) -> Any:
        writer("last words")
        raise ValueError(state["notes"])

    builder = StateGraph(Notes).add_node("work", work).add_edge(START, "work")
    async with hosted_replica(platform_dsn, loaded("writer", builder)) as replica:
        ended = await replica.run("writer", {"notes": []})
        heard, _ = await told(replica, ended, 0)
    assert (ended.state, heard.all) == ("FAILED", [("work", "last words")])
