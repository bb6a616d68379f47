"""Each mode of a stream over HTTP tells what LangGraph alone tells of the same graph, and goes on where it was cut."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import httpx
import pytest
from langchain_core.messages import BaseMessage, BaseMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.fixtures.hosted import graph_alone
from tests.fixtures.http_sdk import Sdk, sdk
from tests.fixtures.stack import Platform

# Of an event: the names of the graph's nodes that it is of, its mode, and what it says.
Told = tuple[str, str, Any]
MODES = ["values", "updates", "custom", "checkpoints", "tasks"]
pytestmark = pytest.mark.timeout(300)


async def alone(given: Any, modes: Sequence[str], config: Any, graph: Any) -> list[Told]:
    """What LangGraph by itself tells, without the ids of tasks."""
    return [
        ("/".join(each.partition(":")[0] for each in namespace), mode, data)
        async for namespace, mode, data in graph.astream(given, config, stream_mode=list(modes), subgraphs=True)
    ]


async def told(events: AsyncIterator[Any]) -> list[Told]:
    found: list[Told] = []
    async for part in events:
        mode, *namespace = part.event.split("|")
        found.append(("/".join(namespace), mode, part.data))
    return found


def of_mode(found: Iterable[Told], mode: str) -> list[Any]:
    """What the outermost graph tells in a mode, without the questions."""
    return [_plain(data) for outer, each, data in found if each == mode and not outer and "__interrupt__" not in data]


def _plain(data: Any) -> Any:
    """What is told, as JSON, of messages their kind and words: ids are made anew."""
    if isinstance(data, BaseMessage):
        return [data.type, data.content]
    if isinstance(data, dict):
        return [data["type"], data["content"]] if "content" in data else {k: _plain(v) for k, v in data.items()}
    return [_plain(each) for each in data] if isinstance(data, list | tuple) else data


def in_any_order(found: list[Any]) -> list[str]:
    """What is told of a step's tasks, which end in any order."""
    return sorted(json.dumps(each, sort_keys=True) for each in found)


def begun_and_ended(found: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """The tasks that begin and end, by their nodes; each ends by the id that it has begun with."""
    begun = {(each["id"], each["name"]) for each in found if "result" not in each}
    assert {(each["id"], each["name"]) for each in found} == begun
    return sorted((each["name"], "result" in each) for each in found)


def places(checkpoints: list[dict[str, Any]]) -> list[Any]:
    """What checkpoints say, without the ids."""
    found = []
    for each in checkpoints:
        source, step = each["metadata"]["source"], each["metadata"]["step"]
        values = {name: value for name, value in each["values"].items() if value}
        found.append((step, source, values, each["next"], [task["name"] for task in each["tasks"]]))
    return found


async def test_every_mode_tells_what_langgraph_alone_tells(replicated: Platform) -> None:
    graph = graph_alone("streams", "told").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"messages": [{"role": "user", "content": "How many?", "id": "q"}], "notes": []}
    async with sdk(replicated) as client:
        thread_id = (await client.threads.create())["thread_id"]
        for begin, asked in ((given, {"input": given}), (Command(resume="yes"), {"command": {"resume": "yes"}})):
            expected = await alone(begin, MODES, config, graph)
            found = await told(client.runs.stream(thread_id, "told", stream_mode=MODES, stream_subgraphs=True, **asked))
            written = [
                sorted(json.dumps([outer, data]) for outer, mode, data in each if mode == "custom")
                for each in (found, expected)
            ]
            assert written[0] == written[1]
            assert len(written[0]) == (7 if begin is given else 2)
            assert in_any_order(of_mode(found, "updates")) == in_any_order(of_mode(expected, "updates"))
            assert begun_and_ended(of_mode(found, "tasks")) == begun_and_ended(of_mode(expected, "tasks"))
            # Who answers is not told again the state that it answered.
            again = begin is not given
            assert of_mode(found, "values") == of_mode(expected, "values")[again:]
            assert places(of_mode(found, "checkpoints")) == places(of_mode(expected, "checkpoints"))[again:]
            asks = [
                [each["value"] for each in data["__interrupt__"]]
                for _, mode, data in found
                if mode == "updates" and "__interrupt__" in data
            ]
            assert asks == ([["Go on?"]] if begin is given else [])
        last = [data for _, mode, data in found if mode == "checkpoints"][-1]
        state = await client.threads.get_state(thread_id, checkpoint=last["config"]["configurable"])
        assert _plain(state["values"]) == _plain(last["values"])
        # Without graphs inside nodes, what these write is not told.
        whole = await told(client.runs.stream(None, "told", input=given, stream_mode="custom"))
        assert [data for _, mode, data in whole if mode == "custom"][:1] == [{"speaks": True}]
        assert len([data for _, mode, data in whole if mode == "custom"]) == 5


async def test_messages_are_told_in_both_forms_as_langgraph_tells_them(replicated: Platform) -> None:
    graph = graph_alone("streams", "told").compile(checkpointer=InMemorySaver())
    given: Any = {"messages": [{"role": "user", "content": "How many?", "id": "q"}], "notes": []}
    chunks = [data for _, _, data in await alone(given, ["messages"], {"configurable": {"thread_id": "1"}}, graph)]
    words = [(message.content, metadata["langgraph_node"]) for message, metadata in chunks if message.content]
    assert all(isinstance(message, BaseMessageChunk) for message, _ in chunks)
    async with sdk(replicated) as client:
        parts = await told(client.runs.stream(None, "told", input=given, stream_mode=["messages-tuple", "messages"]))
        said = [(data[0]["content"], data[1]["langgraph_node"]) for _, mode, data in parts if mode == "messages"]
        # Nobody streams for nobody: where the run was faster than its reader, the message came whole.
        assert said in (words, [("".join(word for word, _ in words), "speak")])
        events = [
            part
            async for part in client.runs.stream(
                None, "speech", input={"messages": given["messages"]}, stream_mode=["messages", "values"]
            )
        ]
        kinds = [part.event for part in events if part.event.startswith("messages")]
        [[(message_id, known)]] = [part.data.items() for part in events if part.event == "messages/metadata"]
        assert known["metadata"]["langgraph_node"] == "speak"
        texts = [part.data[0]["content"] for part in events if part.event in ("messages/partial", "messages/complete")]
        # The last words may come with the message itself.
        assert kinds[:-1] == ["messages/metadata", *["messages/partial"] * (len(texts) - 1)]
        assert len(texts) > 1
        assert all(after.startswith(before) for before, after in itertools.pairwise(texts))
        last = [part.data for part in events if part.event == "values"][-1]["messages"][-1]
        assert (last["id"], last["content"]) == (message_id, texts[-1])


async def joined(client: Sdk, thread_id: str, run_id: str, modes: Sequence[str], last: str | None = None) -> list[Any]:
    return [
        part async for part in client.runs.join_stream(thread_id, run_id, stream_mode=list(modes), last_event_id=last)
    ]


@pytest.mark.parametrize("modes", [["custom"], ["custom", "values", "checkpoints"]])
async def test_a_stream_goes_on_behind_any_write_with_nothing_missing_and_nothing_twice(
    replicated: Platform, modes: list[str]
) -> None:
    async with sdk(replicated) as one, sdk(replicated, replica=1) as other:
        thread_id = (await one.threads.create())["thread_id"]
        run_id = (await one.runs.create(thread_id, "counting", input={"until": 3, "counted": []}))["run_id"]
        heard: list[Any] = []
        # It leaves behind each seventh write, and comes back at the other replica.
        for client in (one, other) * 10:
            last = next((part.id for part in reversed(heard) if part.id), None)
            async for part in client.runs.join_stream(thread_id, run_id, stream_mode=modes, last_event_id=last):
                heard.append(part)
                if part.event == "custom" and len([each for each in heard if each.event == "custom"]) % 7 == 0:
                    break
            if heard[-1].event == "end":
                break
        written = [part.data for part in heard if part.event == "custom"]
        assert written == [[step, number] for step in range(3) for number in range(10)]
        whole = await joined(other, thread_id, run_id, modes)
        for mode in modes:
            assert [part.data for part in heard if part.event == mode] == [
                part.data for part in whole if part.event == mode
            ]


async def test_writes_are_told_on_when_a_replica_of_the_api_dies_and_anew_when_one_of_the_runtime_does(
    replicated: Platform,
) -> None:
    heard: list[Any] = []

    async def until_killed(client: Sdk, thread_id: str, run_id: str, replica: Any) -> None:
        async for part in client.runs.join_stream(thread_id, run_id, stream_mode="custom"):
            heard.append(part)
            if len([each for each in heard if each.event == "custom"]) == 15:
                await replica.kill()

    async with sdk(replicated) as one, sdk(replicated, replica=1) as other:
        thread_id = (await one.threads.create())["thread_id"]
        given = {"until": 3, "counted": []}
        run_id = (await one.runs.create(thread_id, "counting", input=given))["run_id"]
        try:
            with pytest.raises(httpx.HTTPError):
                await until_killed(one, thread_id, run_id, replicated.stack.http_apis[0])
        finally:
            await replicated.stack.http_apis[0].start()
        last = [part.id for part in heard if part.id][-1]
        heard += await joined(other, thread_id, run_id, ["custom"], last)
        assert [each.data for each in heard if each.event == "custom"] == [[s, n] for s in range(3) for n in range(10)]
        heard.clear()
        thread_id = str(uuid.uuid4())
        run_id = (await other.runs.create(thread_id, "counting", input=given, if_not_exists="create"))["run_id"]
        try:
            await until_killed(other, thread_id, run_id, replicated.stack.runtimes[0])
        finally:
            await replicated.stack.runtimes[0].start()
        written = [each.data for each in heard if each.event == "custom"]
        steps = [[n for s, n in written if s == step] for step in range(3)]
        # The node that ran when its replica died, if that was the one, runs again and writes anew; no other does.
        whole_step = list(range(10))
        assert all(step[-10:] == whole_step and step[:-10] == whole_step[: len(step) - 10] for step in steps)
        assert sum(step != whole_step for step in steps) <= 1
        whole = await joined(other, thread_id, run_id, ["custom"])
        assert [part.data for part in whole if part.event == "custom"] == [[s, n] for s in range(3) for n in range(10)]
