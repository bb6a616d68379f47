"""A thread's own stream: what LangGraph's newest clients hear of it, whoever does something in it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from signalbox.v1 import hosted_pb2, runs_pb2, runs_pb2_grpc

from tests.chaos.deployment import until
from tests.fixtures.hosted import FOLDER
from tests.fixtures.stack import Platform, World, platform

CALLER, STRANGER = "27", "28"
CHAT = Path(__file__).parents[1] / "fixtures" / "hosted_chat"
ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom", "tasks"]
Event = dict[str, Any]
pytestmark = pytest.mark.timeout(300)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(harbour: World) -> AsyncIterator[Platform]:
    """A platform with two replicas of the HTTP API, and an agent that says its words one by one."""
    env = {
        "runtime": {"SIGNALBOX_AGENT_FOLDERS": f"{FOLDER},{CHAT}"},
        "http_api": {"SIGNALBOX_MAX_THREAD_STREAMS": "6", "SIGNALBOX_HEARTBEAT_S": "0.5"},
    }
    async with platform(harbour, service_env=env, http_replicas=2) as running:
        yield running


class Watched:
    """A thread as a client of the protocol has it."""

    def __init__(self, running: Platform, thread_id: str = "", subject: str = CALLER) -> None:
        self.running = running
        self.thread_id = thread_id or str(uuid.uuid4())
        self.headers = {"x-api-key": running.token(subject)}
        self.commands = 0

    def url(self, replica: int) -> str:
        return f"http://{self.running.stack.http_apis[replica].ready.listen}/threads/{self.thread_id}"

    async def command(self, method: str, replica: int = 0, **params: Any) -> Event:
        self.commands += 1
        body = {"id": self.commands, "method": method, "params": params}
        async with httpx.AsyncClient(headers=self.headers, timeout=60) as http:
            answer = await http.post(f"{self.url(replica)}/commands", json=body)
        assert answer.status_code == 200, answer.text
        told: Event = answer.json()
        assert told["id"] == self.commands
        return told

    async def say(self, text: str, replica: int = 0, **params: Any) -> str:
        given = {"messages": [{"type": "human", "content": text, "id": str(uuid.uuid4())}]}
        answer = await self.command("run.start", replica, assistant_id="agent", input=given, **params)
        return str(answer["result"]["run_id"])

    async def events(
        self, replica: int = 0, channels: list[str] = ALL, opened: asyncio.Event | None = None, **asked: Any
    ) -> AsyncGenerator[Event, None]:
        """What is heard, until the reader has enough; `opened` is set once the thread has been looked at."""
        async with (
            httpx.AsyncClient(headers=self.headers, timeout=60) as http,
            http.stream("POST", f"{self.url(replica)}/stream/events", json={"channels": channels, **asked}) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            if opened:
                opened.set()
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    async def until(self, holds: Callable[[Event], Any], replica: int = 0, **asked: Any) -> list[Event]:
        """What is heard up to an event."""
        heard = []
        async with aclosing(self.events(replica, **asked)) as events:
            async for event in events:
                heard.append(event)
                if holds(event):
                    break
        return heard


def status(event: Event) -> str:
    """What becomes of a run, where an event says that."""
    return event["params"]["data"]["event"] if event["method"] == "lifecycle" else ""


def over(event: Event) -> bool:
    return status(event) in ("completed", "failed", "interrupted")


def of(heard: list[Event], method: str) -> list[Any]:
    return [event["params"]["data"] for event in heard if event["method"] == method]


def words_of(heard: list[Event]) -> dict[str, str]:
    """What was said of each message, put together piece by piece, and what its end says."""
    pieces: dict[str, str] = {}
    for data in of(heard, "messages"):
        if data["event"] == "content-block-delta":
            pieces[data["message_id"]] = pieces.get(data["message_id"], "") + data["delta"]["text"]
        elif data["event"] == "content-block-finish" and data["content"]["type"] == "text":
            assert pieces[data["message_id"]] == data["content"]["text"]
    return pieces


def run_of(event: Event) -> str:
    """The run that an event of a lifecycle is of, as clients read it."""
    return str(event["event_id"]).split(":")[1]


def ended(run_id: str) -> Callable[[Event], bool]:
    """Whether an event is the end of a run."""
    return lambda event: over(event) and run_of(event) == run_id


def once(*readings: list[Event]) -> list[Event]:
    """What a client has after several connections: it knows by its id what it has heard, and that is the same again."""
    known: dict[str, Event] = {}
    for event in (event for heard in readings for event in heard):
        before = known.setdefault(event["event_id"], event)
        assert before["params"]["data"] == event["params"]["data"]
    return list(known.values())


async def test_an_answer_is_told_piece_by_piece_through_the_death_of_a_replica(served: Platform) -> None:
    thread, first = Watched(served), list[Event]()

    async def hear_until_it_dies() -> None:
        async with aclosing(thread.events(0)) as events:
            async for event in events:
                first.append(event)
                if len(of(first, "messages")) == 8:
                    await served.stack.http_apis[0].kill()

    run_id = await thread.say("Hello")
    try:
        with pytest.raises(httpx.HTTPError):
            await hear_until_it_dies()
        cursor = first[-1]["seq"]
        rest, anew = await asyncio.gather(
            thread.until(ended(run_id), replica=1, since=cursor), thread.until(ended(run_id), replica=1)
        )
    finally:
        await served.stack.http_apis[0].start()
    [words] = words_of(once(first, rest)).values()
    assert words.split() == ["You", "said:", "Hello", *(f"word{number}" for number in range(30))]
    assert len(of(first, "messages")) >= 8
    whole = await thread.until(ended(run_id))
    ids = {event["event_id"] for event in whole}
    assert (
        {event["event_id"] for event in once(first, rest)} == {event["event_id"] for event in once(first, anew)} == ids
    )
    assert all(event["seq"] >= cursor for event in rest)
    assert [event["seq"] for event in whole] == sorted(event["seq"] for event in whole)
    assert len(ids) == len(whole)
    assert of(whole, "values")[-1]["messages"][-1]["content"] == words


async def test_a_question_is_answered_elsewhere_and_all_who_listen_hear_of_it(served: Platform) -> None:
    thread = Watched(served)
    run_id = await thread.say("Send a mail")
    other = asyncio.create_task(thread.until(ended(f"{run_id}~1"), replica=1))
    heard = await thread.until(ended(run_id))
    [asked] = of(heard, "input.requested")
    assert asked["payload"]["action_requests"][0]["args"] == {"to": "ana@example.com"}
    assert status(heard[-1]) == "interrupted"
    tree = (await thread.command("agent.getTree"))["result"]["tree"]
    assert (tree["status"], tree["graph_name"]) == ("interrupted", "agent")
    answer = {"interrupt_id": asked["interrupt_id"], "namespace": [], "response": {"decisions": [{"type": "approve"}]}}
    assert (await thread.command("input.respond", 1, **answer))["type"] == "success"
    told = await other
    assert of(told, "input.answered") == [{"interrupt_ids": [asked["interrupt_id"]]}]
    assert [(run_of(each), status(each)) for each in told if status(each)] == [
        (run_id, "running"),
        (run_id, "interrupted"),
        (f"{run_id}~1", "running"),
        (f"{run_id}~1", "completed"),
    ]
    assert [each["event"] for each in of(told, "tools")] == ["tool-started", "tool-finished"]
    assert of(told, "tools")[-1]["output"] == "sent to ana@example.com"
    again = await thread.command("input.respond", **answer)
    assert (again["type"], again["error"]) == ("error", "no_such_interrupt")
    late = await thread.until(ended(f"{run_id}~1"))
    # That a task pauses is told while it does.
    paused = {
        each["event_id"] for each in told if each["method"] == "tasks" and each["params"]["data"].get("interrupts")
    }
    assert {each["event_id"] for each in late} == {each["event_id"] for each in told} - paused
    async with httpx.AsyncClient(headers=thread.headers) as http:
        stopped = await http.post(f"{thread.url(0)}/runs/{run_id}~1/cancel")
    assert stopped.status_code == 202


async def test_runs_that_others_create_are_heard_one_after_another(served: Platform) -> None:
    thread = Watched(served)
    listening = asyncio.Event()
    heard: list[Event] = []

    async def listen(count: int) -> None:
        async with aclosing(thread.events(1, opened=listening)) as events:
            async for event in events:
                heard.append(event)
                if sum(map(over, heard)) == count:
                    return

    reader = asyncio.create_task(listen(3))
    await listening.wait()
    metadata = (("authorization", f"Bearer {served.token(CALLER)}"),)
    graph = hosted_pb2.GraphInput(agent="calculator")
    graph.input.update({"messages": [{"role": "user", "content": "Add up."}], "wanted": 2})
    request = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph=graph), thread_id=thread.thread_id)
    made = await runs_pb2_grpc.RunServiceStub(served.channel).CreateRun(request, metadata=metadata)
    first = await thread.say("One", multitask_strategy="enqueue")
    second = await thread.say("Two", multitaskStrategy="enqueue")
    await reader
    runs = [made.run.run_id, first, second]
    assert [(run_of(each), status(each)) for each in heard if status(each)] == [
        (run_id, what) for run_id in runs for what in ("running", "completed")
    ]
    numbers = [event["seq"] for event in heard]
    assert numbers == sorted(numbers)
    people = [each["content"] for each in of(heard, "values")[-1]["messages"] if each["type"] == "human"]
    assert people[-2:] == ["One", "Two"]
    later = await thread.until(ended(second), since=next(each["seq"] for each in heard if ended(first)(each)))
    assert {run_of(each) for each in later if status(each)} == {second}


async def test_a_run_is_stopped_and_its_end_is_told(served: Platform) -> None:
    thread = Watched(served)
    run_id = await thread.say("Slowly")
    await thread.until(lambda event: event["method"] == "messages")
    async with httpx.AsyncClient(headers=thread.headers) as http:
        assert (await http.post(f"{thread.url(1)}/runs/{run_id}/cancel")).status_code == 202
    heard = await thread.until(ended(run_id), channels=["lifecycle"])
    assert [status(each) for each in heard] == ["running", "interrupted"]
    again = await thread.say("Hello")
    told = await thread.until(ended(again))
    assert status(told[-1]) == "completed"


async def test_only_what_is_asked_for_is_told(served: Platform) -> None:
    thread = Watched(served)
    run_id = await thread.say("What is the weather?")
    end = ended(run_id)
    whole = await thread.until(end)
    assert {event["method"] for event in whole} == {
        "lifecycle", "checkpoints", "values", "updates", "tasks", "messages", "tools", "custom"
    }  # fmt: skip
    written = await thread.until(end, channels=["custom", "lifecycle"])
    assert of(written, "custom") == [{"payload": {"looks_at": "Kiel"}}]
    assert {event["method"] for event in written} == {"custom", "lifecycle"}
    # A number that was heard with all channels stands for the same place with few.
    rest = await asyncio.wait_for(thread.until(end, channels=["lifecycle"], since=whole[-2]["seq"]), 60)
    assert [event["seq"] for event in rest] == [whole[-1]["seq"]]
    inside = await thread.until(end, channels=["values", "lifecycle"], namespaces=[[]], depth=0)
    assert of(inside, "values") == of(whole, "values")
    silent = asyncio.create_task(thread.until(over, namespaces=[["elsewhere"]]))
    alien = asyncio.create_task(Watched(served, thread.thread_id, STRANGER).until(over))
    run_id = await thread.say("Hello")
    await thread.until(ended(run_id))
    assert not silent.done()
    assert not alien.done()
    for each in (silent, alien):
        each.cancel()
    await asyncio.gather(silent, alien, return_exceptions=True)
    answer = await thread.command("state.get", keys=["messages"])
    assert [each["type"] for each in answer["result"]["values"]["messages"]][-2:] == ["human", "ai"]
    listed = (await thread.command("state.listCheckpoints", limit=2))["result"]["checkpoints"]
    assert listed[0]["id"] == answer["result"]["checkpoint"]["id"]
    fork = {"configurable": {"checkpoint_id": listed[-1]["id"]}}
    forked = await thread.command("run.start", assistant_id="agent", input=None, config=fork)
    assert status((await thread.until(ended(forked["result"]["run_id"])))[-1]) == "completed"


@pytest.mark.parametrize(
    ("method", "params", "error", "words"),
    [
        ("run.start", {"assistant_id": "nobody", "input": {}}, "invalid_argument", "no assistant"),
        ("run.start", {"assistant_id": "agent", "input": 3}, "invalid_argument", "an object"),
        ("run.start", {"assistant_id": "agent", "colour": 1}, "invalid_argument", "colour"),
        ("run.start", {"assistant_id": "agent", "multitask_strategy": "guess"}, "invalid_argument", "multitask"),
        ("input.respond", {"interrupt_id": "1", "response": 1}, "no_such_interrupt", "asks nothing"),
        ("input.respond", {"interrupt_id": "1", "response": 1, "update": {"a": 1}}, "not_supported", "update"),
        ("input.respond", {"responses": []}, "invalid_argument", "responses"),
        ("input.inject", {"namespace": [], "message": {}}, "not_supported", "multitask_strategy"),
        ("subscription.subscribe", {"channels": ["values"]}, "not_supported", "stream/events"),
        ("state.get", {"namespace": ["inner"]}, "no_such_namespace", "inside nodes"),
        ("state.listCheckpoints", {"limit": 100000}, "invalid_argument", "limit"),
        ("agent.getTree", {}, "no_such_run", "no such run"),
        ("run.stop", {}, "unknown_command", "run.start"),
    ],
)
async def test_what_can_not_be_done_is_said_in_the_answer(
    served: Platform, method: str, params: dict[str, Any], error: str, words: str
) -> None:
    told = await Watched(served).command(method, **params)
    assert (told["type"], told["error"]) == ("error", error)
    assert words in told["message"]


async def test_a_caller_listens_to_so_many_threads_and_others_all_the_same(served: Platform) -> None:
    thread, body = Watched(served, subject=STRANGER), {"channels": ["lifecycle"]}

    async def answer(stack: AsyncExitStack) -> httpx.Response:
        http = await stack.enter_async_context(http_of(thread))
        return await stack.enter_async_context(http.stream("POST", f"{thread.url(0)}/stream/events", json=body))

    async with AsyncExitStack() as stack:
        readers = [(await answer(stack)).aiter_bytes() for _ in range(6)]
        assert {await anext(reader) for reader in readers} == {b": heartbeat\n\n"}
        refused = await answer(stack)
        await refused.aread()
        assert (refused.status_code, refused.json()["reason"]) == (429, "TOO_MUCH")
        mine = Watched(served)
        run_id = await mine.say("What is the weather?")
        assert status((await mine.until(ended(run_id)))[-1]) == "completed"

    async def is_free() -> bool:
        async with AsyncExitStack() as stack:
            return (await answer(stack)).status_code == 200

    await until(is_free, "streams that have ended count no more")


def http_of(thread: Watched) -> httpx.AsyncClient:
    return httpx.AsyncClient(headers=thread.headers, timeout=30)


async def test_a_session_of_the_python_sdk_hears_words_tools_and_a_question(served: Platform) -> None:
    async def asks() -> bool:
        return bool(thread.interrupted)

    url = f"http://{served.stack.http_apis[0].ready.listen}"
    async with get_client(url=url, api_key=served.token(CALLER)) as client:
        thread: Any
        async with client.threads.stream(assistant_id="agent") as thread:
            given = {"messages": [{"type": "human", "content": "Hello"}]}
            await thread.run.start(input=given)
            [message] = [each async for each in thread.messages]
            said = await message.text
            assert said.startswith("You said: Hello word0")
            assert (await thread.output)["messages"][-1]["content"] == said
            thread_id = thread.thread_id
        async with client.threads.stream(thread_id, assistant_id="agent") as thread:
            await thread.run.start(input={"messages": [{"type": "human", "content": "Send a mail"}]})
            await until(asks, "it asks")
            [asked] = thread.interrupts
            assert asked["value"]["action_requests"][0]["name"] == "send_mail"
            await thread.run.respond({"decisions": [{"type": "approve"}]})
            [call] = [each async for each in thread.tool_calls]
            assert "sent to ana@example.com" in str(await call.output)
