"""A run's stream tells of tasks what LangGraph alone tells of the same graph, whoever reads it and from where on."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import CachePolicy, Command, Interrupt, RetryPolicy, Send, interrupt

from services.http_api.event_stream import Part
from services.http_api.reader import position_of
from services.runtime.engine.run_states import RunStates
from services.runtime.engine.serde import make_serde
from tests.fixtures.hosted import CALLER, FOLDER, graph_alone, hosted_replica, loaded
from tests.fixtures.served_runs import ServedRuns

WHOLE = ("interrupts", "next", "step", "tasks")
MODES = ("updates", "tasks", "debug")


class Seen(TypedDict, total=False):
    """What nodes of these graphs note."""

    notes: Annotated[list[str], operator.add]
    last: str
    messages: Annotated[list[AnyMessage], add_messages]


def empty() -> Any:
    return StateGraph(Seen)


def noting(name: str) -> Any:
    return lambda _: {"notes": [name], "last": name}


def notes_only(name: str) -> Any:
    return lambda _: {"notes": [name]}


def parallel() -> Any:
    made = empty().add_node("a", notes_only("a")).add_node("b", noting("b")).add_node("c", lambda _: None)
    made.add_node("after", noting("after"))
    for name in "abc":
        made.add_edge(START, name)
    return made.add_edge(["a", "b", "c"], "after")


def fan_out() -> Any:
    made = empty().add_node("begin", noting("begin")).add_node("work", lambda given: {"notes": [given["n"]]})
    made.add_node("beside", notes_only("beside"))
    made.add_edge(START, "begin")
    made.add_conditional_edges("begin", lambda _: [*(Send("work", {"n": f"{n}"}) for n in range(3)), "beside"])
    return made


def commands() -> Any:
    def lead(_: Seen) -> Command[Any]:
        return Command(goto=["a", Send("b", {"notes": ["sent"]})], update={"notes": ["led"]})

    def several(_: Seen) -> list[Any]:
        return [Command(update={"notes": ["one"]}), {"notes": ["two"]}]

    made = empty().add_node("lead", lead, destinations=("a", "b")).add_node("a", several)
    return made.add_node("b", lambda given: {"last": given["notes"][0]}).add_edge(START, "lead")


def inner() -> Any:
    inside = empty().add_node("in", noting("in")).add_edge(START, "in").compile()
    return empty().add_node("graph", inside).add_node("b", noting("b")).add_edge(START, "graph").add_edge("graph", "b")


def reads_little() -> Any:
    class Little(TypedDict):
        last: str

    class Private(TypedDict):
        secret: str

    def begin(_: Seen) -> Private:
        return {"secret": "s"}

    made = (
        empty()
        .add_node("begin", begin)
        .add_node("reads", lambda given: {"notes": [given["secret"]]}, input_schema=Private)
    )
    made.add_node("little", lambda _: {"last": "x"}, input_schema=Little)
    return made.add_edge(START, "begin").add_edge("begin", "reads").add_edge("reads", "little")


def deferred() -> Any:
    made = empty().add_node("a", notes_only("a")).add_node("b", notes_only("b")).add_node("c", notes_only("c"))
    made.add_node("late", noting("late"), defer=True)
    made.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge("a", "late").add_edge("c", "late")
    return made


def retried() -> Any:
    tries = iter((False, True))

    def falter(_: Seen) -> Seen:
        if not next(tries):
            raise ConnectionError("not yet")
        return {"notes": ["at last"]}

    policy = RetryPolicy(initial_interval=0.01, retry_on=ConnectionError)
    return empty().add_node("falter", falter, retry_policy=policy).add_edge(START, "falter")


def cached() -> Any:
    made = empty().add_node("a", lambda _: {"notes": ["a"]}, cache_policy=CachePolicy(key_func=lambda _: "k"))
    made.add_node("b", notes_only("b")).add_node("end", noting("end"))
    return made.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "end")


def asking() -> Any:
    def ask(_: Seen) -> Seen:
        return {"notes": [interrupt("Go on?")]}

    made = empty().add_node("ask", ask).add_node("beside", notes_only("beside")).add_node("end", noting("end"))
    return made.add_edge(START, "ask").add_edge(START, "beside").add_edge("ask", "end")


def both_ask() -> Any:
    made = empty()
    for name in "ab":
        made.add_node(name, lambda _, name=name: {"notes": [f"{name}{interrupt(name)}"]}).add_edge(START, name)
    return made


def failing() -> Any:
    def fail(_: Seen) -> Seen:
        raise ValueError("the secret is 42")

    made = empty().add_node("begin", noting("begin")).add_node("fail", fail).add_edge(START, "begin")
    return made.add_edge("begin", "fail")


def failing_beside() -> Any:
    """One ends at once, one fails a little later, and one never ends by itself."""

    async def fail(_: Seen) -> Seen:
        await asyncio.sleep(0.05)
        raise ValueError("the secret is 42")

    async def slow(_: Seen) -> Seen:
        await asyncio.Event().wait()
        return {}

    made = empty().add_node("quick", noting("quick")).add_node("fail", fail).add_node("slow", slow)
    return made.add_edge(START, "quick").add_edge(START, "fail").add_edge(START, "slow")


def handled() -> Any:
    def fail(_: Seen) -> Seen:
        raise ValueError("the secret is 42")

    made = empty()
    made.add_node("fail", fail, error_handler=lambda _: {"notes": ["handled"]}).add_node("end", noting("end"))
    return made.add_edge(START, "fail").add_edge(START, "end")


def plain(data: Any) -> Any:
    """What is told, as JSON, without ids, times and configs, which are made anew, and without an error's words."""
    if isinstance(data, BaseMessage):
        return [data.type, data.content]
    if isinstance(data, Interrupt):
        return {"value": data.value}
    if isinstance(data, BaseException):
        return type(data).__name__
    if isinstance(data, dict):
        if {"type", "content"} <= data.keys():
            return [data["type"], data["content"]]
        dropped = ("id", "timestamp", "config", "parent_config", "metadata", "response_schema", "state")
        # Of fields that nobody has written LangGraph tells the empty beginning.
        return {k: plain(v) for k, v in data.items() if k not in dropped and (v not in ([], 0) or k in WHOLE)}
    return [plain(each) for each in data] if isinstance(data, list | tuple) else data


def sorted_(found: Sequence[tuple[str, Any]]) -> list[str]:
    return sorted(json.dumps([mode, plain(data)], sort_keys=True) for mode, data in found)


def order(found: Sequence[tuple[str, Any]]) -> None:
    """Each task ends behind its beginning, and what was known of it at its beginning goes by its id."""
    begun: dict[str, str] = {}
    for mode, data in found:
        if mode == "tasks" and "result" not in data:
            begun[data["id"]] = data["name"]
        elif mode == "tasks":
            # What handles a failure begins within its step, and LangGraph does not say so.
            assert begun.get(data["id"], data["name"]) == data["name"]
            assert data["id"] in begun or data["name"].startswith("__error_handler__")


async def alone(graph: Any, given: Any, *answers: Any, cache: Any = None) -> list[list[tuple[str, Any]]]:
    """What LangGraph by itself tells, call by call."""
    compiled: Any = graph.compile(checkpointer=InMemorySaver(), cache=cache)
    found: list[list[tuple[str, Any]]] = []
    config: Any = {"configurable": {"thread_id": "1"}}
    for number in range(1 + len(answers)):
        each = given
        if number:
            open_ = (await compiled.aget_state(config)).interrupts
            each = Command(resume={asked.id: answers[number - 1] for asked in open_})
        told: list[tuple[str, Any]] = []
        try:
            async for mode, data in compiled.astream(
                each, {"configurable": {"thread_id": "1"}}, stream_mode=list(MODES)
            ):
                told.append((mode, data))
        except ValueError:
            pass
        found.append(told)
    return found


def checkpoints(found: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(mode, data) for mode, data in found if data.get("type") == "checkpoint"]


def told_of(parts: Sequence[Part]) -> list[tuple[str, Any]]:
    return [(part.event, part.data) for part in parts if part.event in MODES]


GRAPHS: dict[str, Callable[[], Any]] = {
    made.__name__: made for made in (parallel, fan_out, commands, inner, reads_little, deferred, retried, handled)
}


@pytest.mark.parametrize("name", GRAPHS)
async def test_tasks_are_told_as_by_langgraph_alone(platform_dsn: str, name: str) -> None:
    [expected] = await alone(GRAPHS[name](), {"notes": ["given"]})
    async with hosted_replica(platform_dsn, loaded("graph", GRAPHS[name]())) as replica:
        served = ServedRuns(replica)
        run = await replica.create("graph", {"notes": ["given"]})
        found = told_of(await served.told("graph", run.run_id, *MODES))
    assert sorted_(found) == sorted_(expected)
    order(found)


@pytest.mark.parametrize("made", [asking, both_ask])
async def test_a_question_and_its_answer_are_told_as_by_langgraph_alone(platform_dsn: str, made: Any) -> None:
    """A stream ends where the run asks; that of who answers tells again what goes on, and what had ended beside it."""
    async with hosted_replica(platform_dsn, loaded("graph", made())) as replica:
        served = ServedRuns(replica)
        run = await replica.create("graph", {"notes": ["given"]})
        found = [told_of(await served.told("graph", run.run_id, *MODES))]
        run = await replica.store.get(run.run_id, CALLER)
        asked = run.input_request
        assert asked is not None
        ids = [each["id"] for each in (asked.detail or {})["interrupts"]]
        answers = dict.fromkeys(ids, "yes")
        position = await served.answering(run.run_id)
        await replica.answer(run, answers=answers)
        answered = asked.input_request_id
        found.append(told_of(await served.told("graph", run.run_id, *MODES, position=position, answered=answered)))
    first, then = await alone(made(), {"notes": ["given"]}, "yes")
    assert sorted_(found[0]) == sorted_(first)
    # The state that is answered is not told again.
    assert sorted_(found[1]) == sorted_(
        [each for each in then if each[1].get("type") != "checkpoint"] + checkpoints(found[1])
    )


async def test_what_had_ended_at_a_question_is_told_once_to_who_comes_back(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, loaded("graph", asking())) as replica:
        served = ServedRuns(replica)
        run = await replica.create("graph", {"notes": ["given"]})
        heard = await served.told("graph", run.run_id, *MODES)
        run = await replica.store.get(run.run_id, CALLER)
        await replica.answer(run, "yes")
        last = [part.id for part in heard if part.id][-1]
        heard += await served.told("graph", run.run_id, *MODES, position=position_of(last))
        nodes = [name for mode, data in told_of(heard) if mode == "updates" for name in data]
        assert sorted(nodes) == ["__interrupt__", "ask", "beside", "end"]
        ended = [data["name"] for mode, data in told_of(heard) if mode == "tasks" and data.get("result")]
        assert sorted(ended) == ["ask", "beside", "end"]


@pytest.mark.parametrize("made", [parallel, fan_out, asking])
async def test_whoever_goes_on_anywhere_hears_nothing_twice_and_misses_nothing(platform_dsn: str, made: Any) -> None:
    """Also at a replica that has not the graph's code, and with what is told live or afterwards."""
    async with (
        hosted_replica(platform_dsn, loaded("graph", made())) as replica,
        hosted_replica(platform_dsn, pool="other") as other,
    ):
        served = ServedRuns(replica)
        run = await replica.create("graph", {"notes": ["given"]})
        live = await served.told("graph", run.run_id, *MODES, "values", "checkpoints")
        elsewhere = ServedRuns(replica, RunStates(other.pools.calls, make_serde(), other.store, other.agents))
        for reader in (served, elsewhere):
            for number, part in enumerate(live[:-1]):
                if part.id:
                    on = await reader.told(
                        "graph", run.run_id, *MODES, "values", "checkpoints", position=position_of(part.id)
                    )
                    on = [each for each in on if each.event != "metadata"]
                    behind = live[number + 1 :]
                    if made is asking and len(behind) == 1:
                        # It is asked still.
                        behind = live[-len(on) :]
                    assert [(each.event, each.data) for each in on] == [(each.event, each.data) for each in behind]


@pytest.mark.parametrize("made", [failing, failing_beside])
async def test_a_failure_is_told_of_its_task_without_its_words(platform_dsn: str, made: Any) -> None:
    """And what ended beside it with what it brought; of what is cancelled for it, no end."""
    async with hosted_replica(platform_dsn, loaded("graph", made())) as replica:
        served = ServedRuns(replica)
        run = await replica.create("graph", {"notes": ["given"]})
        parts = await served.told("graph", run.run_id, *MODES)
    errors = {data["name"]: data["error"] for mode, data in told_of(parts) if mode == "tasks" and data.get("error")}
    [problem] = [part.data for part in parts if part.event == "error"]
    assert errors == {"fail": problem["message"]}
    assert "ValueError" in problem["message"]
    assert "secret" not in json.dumps([part.data for part in parts])
    [expected] = await alone(made(), {"notes": ["given"]})
    found = [
        (mode, {**data, "error": "ValueError"} if data.get("name") == "fail" and data.get("error") else data)
        for mode, data in told_of(parts)
    ]
    assert sorted_(only(found, "updates", "tasks")) == sorted_(only(expected, "updates", "tasks"))


def only(found: Sequence[tuple[str, Any]], *modes: str) -> list[tuple[str, Any]]:
    return [(mode, data) for mode, data in found if mode in modes]


async def test_what_comes_from_a_cache_is_told_as_such(platform_dsn: str) -> None:
    cache: Any = InMemoryCache()
    await alone(cached(), {"notes": ["given"]}, cache=cache)
    [expected] = await alone(cached(), {"notes": ["given"]}, cache=cache)
    async with hosted_replica(platform_dsn, loaded("graph", cached().compile(cache=InMemoryCache()))) as replica:
        served = ServedRuns(replica)
        await replica.run("graph", {"notes": ["given"]})
        run = await replica.create("graph", {"notes": ["given"]})
        found = told_of(await served.told("graph", run.run_id, *MODES))
    assert [data for mode, data in found if mode == "updates" and "__metadata__" in data] == [
        {"a": {"notes": ["a"]}, "__metadata__": {"cached": True}}
    ]
    assert sorted_(found) == sorted_(expected)


BROUGHT: list[tuple[str, dict[str, Any]]] = [
    ("calculator", {"messages": ["Add up."], "wanted": 2, "rounds": 0}),
    ("supervisor", {"todo": ["writer", "critic"], "done": []}),
    ("digest", {"words": ["one", "three", "", "four"]}),
    ("rollout", {"kind": "full", "log": []}),
    ("leaving", {"log": []}),
    ("mended", {"count": 0}),
]


async def test_graphs_as_people_write_them_are_told_as_by_langgraph_alone(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn, folder=FOLDER) as replica:
        served = ServedRuns(replica)
        for name, given in BROUGHT:
            run = await replica.create(name, given)
            found = told_of(await served.told(name, run.run_id, *MODES))
            graph = graph_alone("kinds", name)
            [expected] = await alone(getattr(graph, "builder", graph), given)
            assert sorted_(found) == sorted_(expected), name
