"""The stream mode `events` over HTTP tells what `astream_events` tells of the same graph alone, each once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_sdk.errors import APIStatusError

from tests.fixtures.events_alone import alone, comparable
from tests.fixtures.hosted import graph_alone
from tests.fixtures.http_sdk import Sdk, sdk
from tests.fixtures.stack import Platform

GIVEN: Any = {"messages": [{"role": "user", "content": "How many?", "id": "q"}], "notes": []}
COUNTING = {"until": 3, "counted": []}
pytestmark = pytest.mark.timeout(300)


async def told(stream: AsyncIterator[Any]) -> list[Any]:
    return [part async for part in stream]


def events_of(parts: list[Any]) -> list[dict[str, Any]]:
    assert "error" not in [part.event for part in parts]
    return [part.data for part in parts if part.event == "events"]


async def test_events_are_those_of_the_graph_alone_also_behind_a_question(replicated: Platform) -> None:
    graph = graph_alone("streams", "told").compile(checkpointer=InMemorySaver(), name="told")
    config: Any = {"configurable": {"thread_id": "1"}}
    async with sdk(replicated) as client:
        thread_id = (await client.threads.create())["thread_id"]
        for begin, asked in ((GIVEN, {"input": GIVEN}), (Command(resume="yes"), {"command": {"resume": "yes"}})):
            expected = await alone(graph, begin, config)
            modes = ["events", "values"]
            found = events_of(await told(client.runs.stream(thread_id, "told", stream_mode=modes, **asked)))
            first, awaited = found[0]["data"].pop("input"), expected[0]["data"].pop("input")
            # The platform hands an answer on by the id of its interrupt.
            assert as_text(awaited["resume"] if begin is not GIVEN else awaited) in as_text(first)
            assert places_of(found) == places_of(expected)
    kinds = {event["event"] for event in found}
    assert kinds == {"on_chain_start", "on_chain_stream", "on_chain_end"}


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def places_of(events: list[dict[str, Any]]) -> dict[tuple[str, ...], list[str]]:
    """Which of several tasks of a node comes first is chance."""
    return {
        place: sorted(told_) if place[-1] == "work" or place == ("told",) else told_
        for place, told_ in comparable(events).items()
    }


async def test_who_comes_back_or_late_hears_each_event_once(replicated: Platform) -> None:
    async with sdk(replicated) as one, sdk(replicated, replica=1) as other:
        thread_id = (await one.threads.create())["thread_id"]
        heard: list[Any] = []
        run_id = ""
        async for part in one.runs.stream(thread_id, "told", input=GIVEN, stream_mode="events"):
            heard.append(part)
            run_id = part.data["run_id"] if part.event == "metadata" else run_id
            if len(heard) == 5:
                break
        # It leaves behind each fifth event, and comes back at the other replica.
        for client in (other, one) * 50:
            count = len(heard)
            async for part in client.runs.join_stream(
                thread_id, run_id, stream_mode="events", last_event_id=[each.id for each in heard if each.id][-1]
            ):
                heard.append(part)
                if len(heard) == count + 5:
                    break
            if heard[-1].event == "end":
                break
        late = events_of(await told(other.runs.join_stream(thread_id, run_id, stream_mode="events")))
        assert events_of(heard) == late
        assert [event["event"] for event in late][:: len(late) - 1] == ["on_chain_start", "on_chain_end"]


async def test_events_go_on_when_a_replica_of_the_api_dies_and_begin_anew_when_one_of_the_runtime_does(
    replicated: Platform,
) -> None:
    heard: list[Any] = []

    async def until_killed(client: Sdk, thread_id: str, replica: Any) -> None:
        async for part in client.runs.stream(
            thread_id, "counting", input=COUNTING, stream_mode="events", if_not_exists="create"
        ):
            heard.append(part)
            ends = [each for each in heard if each.event == "events" and each.data["event"] == "on_chain_stream"]
            if len(ends) == 2:
                await replica.kill()

    async with sdk(replicated) as one, sdk(replicated, replica=1) as other:
        thread_id = (await one.threads.create())["thread_id"]
        try:
            with pytest.raises(httpx.HTTPError):
                await until_killed(one, thread_id, replicated.stack.http_apis[0])
        finally:
            await replicated.stack.http_apis[0].start()
        run_id, last = heard[0].data["run_id"], [part.id for part in heard if part.id][-1]
        heard += await told(other.runs.join_stream(thread_id, run_id, stream_mode="events", last_event_id=last))
        whole = events_of(await told(other.runs.join_stream(thread_id, run_id, stream_mode="events")))
        assert events_of(heard) == whole
        heard.clear()
        thread_id = (await other.threads.create())["thread_id"]
        try:
            await until_killed(other, thread_id, replicated.stack.runtimes[0])
        finally:
            await replicated.stack.runtimes[0].start()
        found = events_of(heard)
        roots = [event for event in found if event["name"] == "counting"]
        claims = list(dict.fromkeys(event["run_id"] for event in roots))
        # It has run at one of both replicas: where that was the one that died, the other told anew from there on.
        assert len(claims) in (1, 2)
        assert roots[-1]["event"] == "on_chain_end"
        steps = {
            event["metadata"]["langgraph_step"]
            for event in found
            if event["event"] == "on_chain_end" and event["name"] == "count"
        }
        assert steps == {1, 2, 3}


async def test_who_did_not_ask_for_events_is_told_none_and_the_platform_s_own_agents_have_none(
    replicated: Platform,
) -> None:
    async with sdk(replicated) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "counting", input=COUNTING)
        parts = await told(client.runs.join_stream(thread_id, run["run_id"], stream_mode="events"))
        assert [part.event for part in parts] == ["metadata", "end"]
        with pytest.raises(APIStatusError) as refused:
            await told(client.runs.stream(None, "data_chat", input={"question": "Hi"}, stream_mode="events"))
        assert refused.value.response.status_code == 422
        assert "own" in str(refused.value)
