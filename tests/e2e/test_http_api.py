"""LangGraph's SDK against the HTTP API of a whole platform: it works as against LangGraph's own server."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import langgraph_sdk
import pytest
import pytest_asyncio
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client
from langgraph_sdk.errors import (
    APIStatusError,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    UnprocessableEntityError,
)

from tests.fixtures.hosted import FOLDER
from tests.fixtures.http_sdk import CALLER, Sdk, sdk, url_of
from tests.fixtures.stack import Platform, World, platform

# A `LangGraphClient`; what its types say is not all that it gives.
TALK = "talk"
GIVEN: Any = {"messages": [{"role": "user", "content": "Add up."}], "wanted": 2}
pytestmark = pytest.mark.timeout(300)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(harbour: World) -> AsyncIterator[Platform]:
    """A platform with two replicas of the HTTP API and of the runtime, that offers the graphs of a folder."""
    env = {
        "runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER), "SIGNALBOX_LEASE_S": "3"},
        "http_api": {"SIGNALBOX_ALLOWED_ORIGINS": "https://chat.example.com", "SIGNALBOX_HEARTBEAT_S": "0.2"},
    }
    async with platform(harbour, service_env=env, http_replicas=2, runtime_replicas=2) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client(served: Platform) -> AsyncIterator[Sdk]:
    """A client of the first replica."""
    async with sdk(served) as made:
        yield made


def turn(text: str) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text, "id": str(uuid.uuid4())}], "text": text}


def said(values: Any) -> list[str]:
    """What a person has said in a conversation."""
    return [each["content"] for each in values["messages"] if each["type"] == "human"]


async def of(events: AsyncIterator[Any]) -> list[tuple[str, Any]]:
    return [(part.event, part.data) async for part in events]


async def test_assistants_are_the_agents_by_name_or_id(client: Sdk) -> None:
    found = await client.assistants.search(limit=100)
    names = {each["graph_id"] for each in found}
    assert {"calculator", TALK, "data_chat"} <= names
    by_name = await client.assistants.get("calculator")
    assert by_name == await client.assistants.get(by_name["assistant_id"])
    assert (await client.assistants.search(graph_id="calculator")) == [by_name]
    schemas = await client.assistants.get_schemas("calculator")
    assert "wanted" in (schemas["input_schema"] or {})["properties"]
    graph = await client.assistants.get_graph("calculator", xray=True)
    assert {"__start__", "model", "tools", "__end__"} <= {node["id"] for node in graph["nodes"]}
    assert {"source": "model", "target": "tools", "conditional": True} in graph["edges"]
    with pytest.raises(NotFoundError, match="no assistant 'nobody'"):
        await client.assistants.get("nobody")


async def test_a_conversation_goes_on_and_is_read_back(client: Sdk) -> None:
    thread = await client.threads.create()
    thread_id = thread["thread_id"]
    assert thread["status"] == "idle"
    assert await client.threads.get_history(thread_id) == []
    first = await client.runs.wait(thread_id, TALK, input=turn("one"))
    second = await client.runs.wait(thread_id, TALK, input=turn("two"), metadata={"team": "payments"})
    assert (said(first), said(second)) == (["one"], ["one", "two"])
    state = await client.threads.get_state(thread_id)
    assert said(state["values"]) == ["one", "two"]
    assert state["next"] == []
    history = await client.threads.get_history(thread_id, limit=50)
    assert history[0] == state
    parents = [each["parent_checkpoint"] for each in history]
    assert [each and each["checkpoint_id"] for each in parents[:-1]] == [
        each["checkpoint"]["checkpoint_id"] for each in history[1:]
    ]
    assert await client.threads.get_history(thread_id, limit=50, before=history[0]["checkpoint"]) == history[1:]
    earlier = await client.threads.get_state(thread_id, history[3]["checkpoint"])
    assert earlier == history[3]
    runs = await client.runs.list(thread_id)
    assert [run["status"] for run in runs] == ["success", "success"]
    assert runs[0]["metadata"]["team"] == "payments"
    assert (await client.runs.join(thread_id, runs[0]["run_id"]))["turns"] == 2
    [found] = await client.threads.search(metadata={"graph_id": TALK}, ids=[thread_id])
    assert said(found["values"]) == ["one", "two"]
    assert [each["thread_id"] for each in await client.threads.search(metadata={"team": "payments"})] == [thread_id]
    copy = await client.threads.copy(thread_id)
    assert said((await client.threads.get_state(copy["thread_id"]))["values"]) == ["one", "two"]
    copied = await client.threads.get_history(copy["thread_id"], limit=50)
    assert [brought(each) for each in copied] == [brought(each) for each in history]
    await client.threads.delete(thread_id)
    assert (await client.threads.get_state(thread_id))["values"] == {}


def brought(state: Any) -> list[Any]:
    """What tasks of a state have brought."""
    return [(task["name"], task["result"]) for task in state["tasks"]]


async def test_a_run_streams_values_updates_and_messages(client: Sdk) -> None:
    modes: Any = ["values", "updates", "messages-tuple"]
    events = await of(client.runs.stream(None, "calculator", input=GIVEN, stream_mode=modes))
    kinds = [event for event, _ in events]
    assert (kinds[0], kinds[-1]) == ("metadata", "end")
    nodes = [name for event, data in events if event == "updates" for name in data]
    assert nodes == ["model", "tools", "model", "tools", "model"]
    values = [data for event, data in events if event == "values"]
    assert [len(each["messages"]) for each in values] == [1, 2, 3, 4, 5, 6]
    told = [data[0] for event, data in events if event == "messages"]
    assert [each["id"] for each in told] == [each["id"] for each in values[-1]["messages"][1:]]


async def test_who_joins_a_run_hears_what_they_do_not_show_yet(served: Platform, client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "calculator", input=GIVEN)
    await client.runs.join(thread_id, run["run_id"])
    history = await client.threads.get_history(thread_id, limit=50)

    async def values(shown: dict[str, Any]) -> list[Any]:
        path = f"{url_of(served)}/threads/{thread_id}/runs/{run['run_id']}/stream"
        params = {"checkpoint_id": shown["checkpoint"]["checkpoint_id"]}
        async with httpx.AsyncClient(headers={"x-api-key": served.token(CALLER)}, timeout=60) as http:
            body = (await http.get(path, params=params)).text
        return [event for event in re.findall("^event: (.+)$", body, re.MULTILINE) if event == "values"]

    whole = await of(client.runs.join_stream(thread_id, run["run_id"]))
    assert {"values", "updates", "messages"} <= {event for event, _ in whole}
    assert len(await values(history[2])) == 2
    assert len(await values(history[1])) == 1


async def test_a_question_is_an_interrupt_and_resume_answers_it(client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    asked = await of(client.runs.stream(thread_id, TALK, input=turn("ask"), stream_mode=["values", "updates"]))
    [interrupt] = asked[-2][1]["__interrupt__"]
    assert (asked[-2][0], interrupt["value"]) == ("values", "What?")
    thread = await client.threads.get(thread_id)
    assert (thread["status"], list(thread["interrupts"].values())) == ("interrupted", [[interrupt]])
    state = await client.threads.get_state(thread_id)
    assert state["tasks"][-1]["interrupts"] == [interrupt]
    answered = await of(client.runs.stream(thread_id, TALK, command={"resume": "yes"}, stream_mode="values"))
    assert answered[-2][1]["messages"][-1]["content"] == "You said yes."
    assert [event for event, _ in answered] == ["metadata", "values", "end"]
    await client.runs.wait(thread_id, TALK, input=turn("ask"))
    # As RemoteGraph sends it.
    answered = await client.runs.wait(thread_id, TALK, command={"resume": "no", "goto": [], "update": {}})
    assert answered["messages"][-1]["content"] == "You said no."
    with pytest.raises(ConflictError, match="no run of the thread asks anything"):
        await client.runs.create(thread_id, TALK, command={"resume": "yes"})


async def test_a_question_stays_open_but_for_an_answer_or_a_new_run(served: Platform, client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    headers = {"x-api-key": served.token(CALLER)}
    async with httpx.AsyncClient(base_url=url_of(served), headers=headers, timeout=60) as http:

        async def asked(key: str = "", **body: Any) -> httpx.Response:
            own = {"idempotency-key": key} if key else {}
            return await http.post(f"/threads/{thread_id}/runs", headers=own, json={"assistant_id": TALK, **body})

        async def status() -> str:
            return str((await client.threads.get(thread_id))["status"])

        first = await client.runs.wait(thread_id, TALK, input=turn("one"))
        begun = (await client.threads.get_state(thread_id))["checkpoint"]
        assert said(first) == ["one"]
        key, spoken = str(uuid.uuid4()), turn("two")
        await client.runs.wait(thread_id, TALK, input=turn("ask"))
        nowhere = {"checkpoint_id": f"{uuid.uuid4()}:x"}
        refused: list[tuple[int, dict[str, Any]]] = [
            (422, {"input": ["no object"]}), (422, {"input": turn("x"), "metadata": {"a": "no label!"}}),
            (422, {"input": turn("x"), "command": {}}), (422, {"command": {"resume": "yes"}, "key": key}),
            (404, {"input": turn("x"), "checkpoint": nowhere}),
            (422, {"input": turn("x"), "checkpoint": begun, "metadata": {"team": "payments"}}),
            (422, {"input": turn("x"), "checkpoint": begun, "multitask_strategy": "enqueue"}),
        ]  # fmt: skip
        for expected, body in refused:
            assert (await asked(**body)).status_code == expected, body
            assert await status() == "interrupted"
        made = (await asked(key, input=spoken)).json()
        assert (await client.runs.join(thread_id, made["run_id"]))["turns"]
        await client.runs.wait(thread_id, TALK, input=turn("ask"))
        assert (await asked(key, input=spoken)).json()["run_id"] == made["run_id"]
        assert await status() == "interrupted"
        forking, again = str(uuid.uuid4()), turn("three")
        forks = [(await asked(forking, input=again, checkpoint=begun)).json()["run_id"] for _ in range(2)]
        assert len(set(forks)) == 1
        assert said(await client.runs.join(thread_id, forks[0])) == ["one", "three"]


async def test_a_conversation_is_edited_and_done_again_from_an_earlier_state(client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, TALK, input=turn("one"))
    await client.runs.wait(thread_id, TALK, input=turn("two"))
    history = await client.threads.get_history(thread_id, limit=50)
    first_seen = [each for each in history if said({"messages": [], **each["values"]})[1:] == ["two"]][-1]
    edited = await client.runs.wait(thread_id, TALK, input=turn("zwei"), checkpoint=first_seen["parent_checkpoint"])
    assert said(edited) == ["one", "zwei"]
    history = await client.threads.get_history(thread_id, limit=50)
    assert said(history[0]["values"]) == ["one", "zwei"]
    again = await client.runs.wait(thread_id, TALK, checkpoint=history[1]["checkpoint"])
    assert said(again) == ["one", "zwei"]
    assert said(await client.runs.wait(thread_id, TALK, input=turn("three"))) == ["one", "zwei", "three"]


async def test_a_stream_goes_on_at_another_replica_when_one_dies(served: Platform) -> None:
    modes: Any = ["values", "updates"]
    heard: list[Any] = []

    async def hear_until_it_dies(client: Sdk, thread_id: str, run_id: str) -> None:
        async for part in client.runs.join_stream(thread_id, run_id, stream_mode=modes):
            heard.append(part)
            if [each.event for each in heard].count("values") == 2:
                await served.stack.http_apis[0].kill()

    async with sdk(served) as one, sdk(served, replica=1) as other:
        thread_id = (await one.threads.create())["thread_id"]
        run_id = (await one.runs.create(thread_id, "slow_chain", input={"until": 12}))["run_id"]
        try:
            with pytest.raises(httpx.HTTPError):
                await hear_until_it_dies(one, thread_id, run_id)
        finally:
            await served.stack.http_apis[0].start()
        last = [part.id for part in heard if part.id][-1]
        heard += [
            part async for part in other.runs.join_stream(thread_id, run_id, stream_mode=modes, last_event_id=last)
        ]
        whole = await of(other.runs.join_stream(thread_id, run_id, stream_mode=modes))
        assert [(part.event, part.data) for part in heard] == whole


async def test_a_stream_goes_on_when_the_runtime_dies(served: Platform) -> None:
    modes: Any = ["values", "updates"]
    heard: list[tuple[str, Any]] = []
    async with sdk(served) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run_id = (await client.runs.create(thread_id, "slow_chain", input={"until": 12}))["run_id"]
        try:
            async for part in client.runs.join_stream(thread_id, run_id, stream_mode=modes):
                heard.append((part.event, part.data))
                if [event for event, _ in heard].count("values") == 2:
                    await served.stack.runtimes[0].kill()
        finally:
            await served.stack.runtimes[0].start()
        assert (heard[-1], heard) == (
            ("end", None),
            await of(client.runs.join_stream(thread_id, run_id, stream_mode=modes)),
        )


async def test_what_is_rolled_back_is_out_of_its_thread_also_when_all_replicas_die(served: Platform) -> None:
    async with sdk(served) as client:
        thread_id = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread_id, "slow_chain", input={"until": 1})
        state = await client.threads.get_state(thread_id)
        active = (await client.runs.create(thread_id, "slow_chain", input={"until": 400}))["run_id"]
        async for part in client.runs.join_stream(thread_id, active, stream_mode="updates"):
            if part.event == "updates":
                break
        undone = await client.threads.get_state(thread_id)
        assert undone["metadata"]["run_id"] == active
        try:
            made = await client.runs.create(
                thread_id,
                "slow_chain",
                input={"until": 2},
                checkpoint=state["checkpoint"],
                multitask_strategy="rollback",
            )
            for replica in served.stack.runtimes:
                await replica.kill()
        finally:
            for replica in served.stack.runtimes:
                await replica.start()
        alone = (await client.threads.create())["thread_id"]
        for until in (1, 2):
            expected = await client.runs.wait(alone, "slow_chain", input={"until": until})
        brought = await client.runs.join(thread_id, made["run_id"])
        assert [each["content"] for each in brought["messages"]] == [each["content"] for each in expected["messages"]]
        runs = {run["run_id"]: run for run in await client.runs.list(thread_id)}
        assert runs[active]["metadata"]["rolled_back_by"] == made["run_id"]
        assert runs[active]["status"] == "interrupted"
        history = await client.threads.get_history(thread_id, limit=100)
        assert active not in {each["metadata"]["run_id"] for each in history}
        assert state in history
        with pytest.raises(NotFoundError, match="no checkpoint"):
            await client.threads.get_state(thread_id, undone["checkpoint"])
        with pytest.raises(NotFoundError, match="no such checkpoint"):
            await client.runs.create(thread_id, "slow_chain", checkpoint=undone["checkpoint"])
        # What it did is still told, and what became of it.
        told = await of(client.runs.join_stream(thread_id, active, stream_mode="updates"))
        assert (told[1][0], told[-2][0]) == ("updates", "error")
        assert told[-2][1]["message"] == f"the run was rolled back by {made['run_id']}"


async def test_a_thread_is_changed_and_goes_on_without_input_or_is_left(client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "calculator", input=GIVEN)
    states = await client.threads.get_history(thread_id, limit=50)
    [at] = [each for each in states if each["metadata"]["step"] == 3]
    await client.threads.update_state(thread_id, {"rounds": 5}, as_node="model", checkpoint=at["checkpoint"])
    changed = await client.threads.get_state(thread_id)
    assert (changed["next"], changed["values"]["rounds"]) == (["give_up"], 7)
    assert changed["parent_checkpoint"]["checkpoint_id"] == at["checkpoint"]["checkpoint_id"]
    ended = await client.runs.wait(thread_id, "calculator", input=None)
    assert ended["messages"][-1]["content"] == "I give up."
    with pytest.raises(UnprocessableEntityError, match=r"update\.round"):
        await client.threads.update_state(thread_id, {"round": 1}, as_node="model")
    asking = (await client.threads.create())["thread_id"]
    await client.runs.wait(asking, TALK, input=turn("ask"))
    left = await of(client.runs.stream(asking, TALK, input={}, command={"goto": "__end__"}))
    assert left[-1] == ("end", None)
    state = await client.threads.get_state(asking)
    assert (state["next"], state["tasks"], said(state["values"])) == ([], [], ["ask"])
    assert (await client.threads.get(asking))["status"] == "idle"


async def test_remote_graph_runs_it_as_a_graph(served: Platform) -> None:
    remote = RemoteGraph("calculator", url=url_of(served), api_key=served.token(CALLER))
    assert len((await remote.ainvoke(GIVEN))["messages"]) == 6


class Talked(MessagesState):
    """State of a graph that has the agent as a node."""

    text: str


async def test_a_node_of_another_graph_streams_asks_and_is_answered(served: Platform) -> None:
    outer = StateGraph(Talked)
    remote: Any = RemoteGraph(TALK, url=url_of(served), api_key=served.token(CALLER))
    outer.add_node("talk", remote)
    graph = outer.add_edge(START, "talk").add_edge("talk", END).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}

    async def told(given: Any) -> list[Any]:
        return [part async for part in graph.astream(given, config, stream_mode="updates", subgraphs=True)]

    parts = await told(turn("ask"))
    assert any(namespace and namespace[0].startswith("talk:") for namespace, _ in parts)
    [asked] = (await graph.aget_state(config)).interrupts
    # LangGraph hands on what answers by id, and nothing else.
    with pytest.raises(UnprocessableEntityError, match=asked.id):
        await told(Command(resume="yes"))
    await told(Command(resume={asked.id: "yes"}))
    state = await graph.aget_state(config)
    assert (state.next, state.values["messages"][-1].content) == ((), "You said yes.")


async def test_an_agent_of_the_platform_is_asked_in_json(client: Sdk) -> None:
    asked = await client.runs.wait(None, "data_chat", input={"question": "Count devices with temperature > 10"})
    assert "6 devices" in asked["answer"]


async def test_what_is_not_offered_is_said_in_words(client: Sdk) -> None:
    with pytest.raises(UnprocessableEntityError, match="crons are not offered yet") as crons:
        await client.crons.create(TALK, schedule="* * * * *")
    assert crons.value.status_code == 422
    refused: list[dict[str, Any]] = [
        {"stream_mode": "tools"}, {"interrupt_before": ["model"]}, {"webhook": "https://example.com"},
        {"multitask_strategy": "undo"}, {"after_seconds": 3}, {"command": {"goto": "model"}},
        {"metadata": {"nested": {}}}, {"input": ["no object"]}, {"config": {"configurable": {"__pregel_x": 1}}},
    ]  # fmt: skip
    for asked in refused:
        with pytest.raises(UnprocessableEntityError):
            await client.runs.create(None, TALK, **{"input": turn("one"), **asked})


async def test_callers_see_their_own_and_nobody_without_a_token(served: Platform, client: Sdk) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, TALK, input=turn("mine"))
    async with sdk(served, "28") as stranger:
        with pytest.raises(NotFoundError):
            await stranger.runs.get(thread_id, run["run_id"])
        assert (await stranger.threads.get_state(thread_id))["values"] == {}
        assert await stranger.threads.search(ids=[thread_id]) == []
    async with get_client(url=url_of(served), api_key=None) as nobody:
        with pytest.raises(AuthenticationError, match="no token"):
            await nobody.assistants.search()
    async with get_client(url=url_of(served), api_key="e30.e30.e30") as forger:
        with pytest.raises(APIStatusError) as refused:
            await forger.threads.search()
        assert refused.value.status_code == 401


async def test_hostile_requests_are_refused_before_they_cost_anything(served: Platform) -> None:
    headers = {"authorization": f"Bearer {served.token(CALLER)}"}
    run = {"assistant_id": TALK, "input": turn("one")}
    deep: Any = "x"
    for _ in range(40):
        deep = [deep]
    async with httpx.AsyncClient(base_url=url_of(served), headers=headers, timeout=60) as http:

        async def status(method: str, path: str, **request: Any) -> int:
            answer = await http.request(method, path, **request)
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            assert answer.json()["detail"]
            return answer.status_code

        assert await status("POST", "/runs", content=b"{", headers={"content-type": "application/json"}) == 400
        assert await status("POST", "/runs", content=b"{}", headers={"content-type": "text/plain"}) == 415
        assert await status("POST", "/runs", json={**run, "input": {"messages": ["x" * 2_000_000]}}) == 413
        assert await status("POST", "/runs", json={**run, "input": {"text": deep}}) == 422
        assert await status("POST", "/runs", json={**run, "input": {"text": 10**400}}) in (400, 422)
        assert await status("POST", "/runs", json={**run, "unknown": 1}) == 422
        assert await status("POST", "/threads/a%0d%0ax-forged:%201/runs/stream", json=run) == 422
        assert await status("POST", "/threads", json={"thread_id": "../x"}) == 422
        assert await status("GET", "/threads/x/runs/..%2f..%2finfo") == 404
        assert await status("GET", "/threads/x/runs/' OR 1=1 --/stream") == 404
        assert await status("GET", "/threads/x/runs?limit=999999999999") == 422
        assert await status("GET", f"/threads/x/runs?limit={'1' * 5000}") == 422
        assert await status("POST", "/runs", json={**run, "input": {"text": 2**53 + 1}}) == 422
        assert await status("POST", "/threads/search", json={"limit": 100000}) == 422
        assert await status("DELETE", "/runs") == 405
        assert await status("GET", "/nothing") == 404
        both = {"authorization": "Bearer a.b.c", "x-api-key": served.token("28")}
        assert await status("GET", "/threads/x", headers=both) == 401
        found = await http.post("/runs/wait", json=run)
        assert found.json()["turns"] == 1
        kept = await http.post("/threads", json={"metadata": {"a": 1e308}})
        assert (kept.status_code, kept.json()["metadata"]) == (200, {"a": 1e308})
        assert (await http.post("/threads/search", json={"metadata": {"a": 1e308}})).status_code == 200
        there = kept.json()["thread_id"]
        await http.post(f"/threads/{there}/runs/wait", json=run)
        assert (
            await status("POST", f"/threads/{there}/state", json={"values": {"text": "\0"}, "as_node": "reply"}) == 422
        )
        path = found.headers["location"].removesuffix("/join") + "/stream"
        async with http.stream("POST", "/runs/stream", json={**run, "on_disconnect": "cancel"}) as streamed:
            assert streamed.headers["location"].endswith("/stream?stream_mode=values&cancel_on_disconnect=true")
            await streamed.aread()
        assert await status("GET", path, headers={"last-event-id": "x" * 5000}) == 422
        assert await status("GET", path + "?stream_mode=tools") == 422
        ahead = await http.get(path, headers={"last-event-id": "9" * 18 + ".999999999"})
        assert [line for line in ahead.text.splitlines() if line.startswith("event")] == ["event: end"]


async def test_what_is_said_can_not_be_taken_for_an_event(client: Sdk) -> None:
    text = "a\n\nevent: error\ndata: {}\r\n\r\nid: 9.9\r\u2028\u2029\u0085data: x"
    events = await of(client.runs.stream(None, TALK, input=turn(text), stream_mode=["values", "updates"]))
    assert "error" not in [event for event, _ in events]
    [told] = said([data for event, data in events if event == "values"][-1])
    # Control characters are told as spaces.
    assert told.split() == text.split()


async def test_requests_of_two_meanings_have_none(served: Platform) -> None:
    host, _, port = url_of(served).removeprefix("http://").rpartition(":")
    body = '{"limit": 1}'
    smuggled = {
        "two lengths": f"content-length: {len(body)}\r\ncontent-length: 3\r\n",
        "a length and chunks": f"content-length: {len(body)}\r\ntransfer-encoding: chunked\r\n",
        "a name with a space": f"x-api-key : {served.token(CALLER)}\r\ncontent-length: {len(body)}\r\n",
        "two tokens": f"x-api-key: {served.token('28')}\r\ncontent-length: {len(body)}\r\n",
    }
    for kind, headers in smuggled.items():
        reader, writer = await asyncio.open_connection(host, int(port))
        asked = f"POST /threads/search HTTP/1.1\r\nhost: x\r\nx-api-key: {served.token(CALLER)}\r\n"
        writer.write(f"{asked}content-type: application/json\r\n{headers}\r\n{body}".encode())
        async with asyncio.timeout(60):
            line = await reader.readline()
        writer.close()
        assert line.split()[1] in (b"400", b"401"), (kind, line)


async def test_a_repeat_with_the_same_key_finds_the_run(served: Platform) -> None:
    headers = {"x-api-key": served.token(CALLER), "idempotency-key": str(uuid.uuid4())}
    async with httpx.AsyncClient(base_url=url_of(served), headers=headers, timeout=60) as http:
        body = {"assistant_id": TALK, "input": turn("one")}
        first, again = [(await http.post("/runs", json=body)).json() for _ in range(2)]
        assert first["run_id"] == again["run_id"]
        batches = [[run["run_id"] for run in (await http.post("/runs/batch", json=[body, body])).json()] for _ in "ab"]
        assert batches[0] == batches[1]
        assert len(set(batches[0])) == 2
        other = await http.post("/runs", json={**body, "input": turn("two")})
        assert (other.status_code, other.json()["reason"]) == (409, "REQUEST_ID_REUSED")


async def test_pages_of_an_origin_that_is_named_may_call_and_no_others(served: Platform) -> None:
    async with httpx.AsyncClient(base_url=url_of(served), timeout=60) as http:

        async def asked_by(origin: str) -> httpx.Response:
            headers = {
                "origin": origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": "x-api-key,content-type,last-event-id",
            }
            return await http.options("/threads", headers=headers)

        let = await asked_by("https://chat.example.com")
        assert (let.status_code, let.headers["access-control-allow-origin"]) == (200, "https://chat.example.com")
        assert "access-control-allow-credentials" not in let.headers
        for origin in ("https://chat.example.com.evil.org", "http://chat.example.com", "null", "https://evil.org"):
            refused = await asked_by(origin)
            assert refused.status_code == 400
            assert "access-control-allow-origin" not in refused.headers
        read = await http.get("/info", headers={"origin": "https://chat.example.com"})
        assert "content-location" in read.headers["access-control-expose-headers"].lower()


async def test_all_that_the_sdk_calls_is_described(served: Platform) -> None:
    async with httpx.AsyncClient(base_url=url_of(served), timeout=60) as http:
        described = (await http.get("/openapi.json")).json()["paths"]
        assert (await http.get("/ok")).json()["ok"] is True
        assert (await http.get("/info")).json()["flags"]["crons"] is False
    places = {re.sub(r"\{\w+\}", "{}", path) for path in described}
    sources = Path(langgraph_sdk.__file__).parent / "_async"
    texts = "".join((sources / f"{name}.py").read_text() for name in ("assistants", "threads", "runs", "store", "cron"))
    asked = {
        re.sub(r"\{[^}]*\}", "{}", path) for path in re.findall(r'f?"(/(?:assistants|threads|runs|store)[^"]*)"', texts)
    }
    assert len(asked) > 30
    assert asked - places == set()


async def test_each_operation_that_is_described_answers_and_takes_what_its_schema_says(served: Platform) -> None:
    headers = {"x-api-key": served.token(CALLER)}
    async with httpx.AsyncClient(base_url=url_of(served), headers=headers, timeout=60) as http:
        described = (await http.get("/openapi.json")).json()["paths"]
        for path, methods in described.items():
            for method, operation in methods.items():
                place = re.sub(r"\{\w+\}", lambda _: str(uuid.uuid4()), path)
                answer = await http.request(method, place)
                assert answer.status_code in {*map(int, operation["responses"].keys() - {"default"}), 204, 404, 422}, (
                    f"{method} {path}: {answer.text}"
                )
                assert "is served at" not in answer.text
                if "requestBody" in operation:
                    unknown = await http.request(method, place, json={"nobody_knows": 1})
                    assert (unknown.status_code, unknown.json()["reason"]) == (422, "INVALID_REQUEST"), path
                nobody = await http.request(method, place, headers={"x-api-key": ""})
                assert (nobody.status_code == 401) is ("security" not in operation), f"{method} {path}"
