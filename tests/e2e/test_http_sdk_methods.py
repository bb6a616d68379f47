"""Each method of LangGraph's Python SDK, async and not, works against the HTTP API or is refused in words."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import langgraph_sdk._async.runs
import pytest
import pytest_asyncio
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import APIStatusError

from tests.fixtures.hosted import FOLDER
from tests.fixtures.http_sdk import url_of
from tests.fixtures.stack import Platform, World, platform

CALLER, AGENT = "27", "calculator"
GIVEN: Any = {"messages": [{"role": "user", "content": "Add up."}], "wanted": 1}
HITL: Any = {"messages": [{"role": "user", "content": "Send it."}]}
CLIENTS = ("assistants", "threads", "runs", "store", "crons")
NAMESPACE = ["people", "ana"]
Sdk = Any
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Known:
    """What a caller has when the methods are tried: a thread whose run has ended, and one whose run asks."""

    thread_id: str
    run_id: str
    asking: str
    checkpoint: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A call of a method, and what comes of it: what holds of its result, or the status and words of a refusal."""

    call: Callable[[Sdk, Known], Any]
    holds: Callable[[Any], Any] = lambda _: True
    status: int = 0
    words: str = ""


def refused(status: int, words: str, call: Callable[[Sdk, Known], Any]) -> Method:
    return Method(call, status=status, words=words)


def session(client: Sdk, known: Known) -> Any:
    """What begins a session of the SDK's newer protocol."""
    opened = client.threads.stream(known.thread_id, assistant_id=AGENT)
    if hasattr(opened, "__aenter__"):

        async def run() -> Any:
            async with opened as stream:
                return await stream.run.start(input=GIVEN)

        return run()
    with opened as stream:
        return stream.run.start(input=GIVEN)


# In the order in which they are tried, of which the last ones take away what others need.
METHODS: dict[str, Method] = {
    "assistants.get": Method(lambda c, _: c.assistants.get(AGENT), lambda found: found["graph_id"] == AGENT),
    "assistants.get_graph": Method(lambda c, _: c.assistants.get_graph(AGENT), lambda found: found["nodes"]),
    "assistants.get_schemas": Method(lambda c, _: c.assistants.get_schemas(AGENT), lambda found: found["input_schema"]),
    "assistants.get_subgraphs": Method(lambda c, _: c.assistants.get_subgraphs(AGENT), lambda found: found == {}),
    "assistants.search": Method(lambda c, _: c.assistants.search(limit=1), lambda found: len(found) == 1),
    "assistants.count": Method(lambda c, _: c.assistants.count(), lambda found: found > 1),
    "assistants.get_versions": Method(lambda c, _: c.assistants.get_versions(AGENT), lambda found: len(found) == 1),
    "assistants.create": refused(422, "deployed", lambda c, _: c.assistants.create(AGENT)),
    "assistants.update": refused(422, "deployed", lambda c, _: c.assistants.update(AGENT, name="x")),
    "assistants.set_latest": refused(422, "deployed", lambda c, _: c.assistants.set_latest(AGENT, 1)),
    "assistants.delete": refused(422, "deployed", lambda c, _: c.assistants.delete(AGENT)),
    "threads.create": Method(
        lambda c, _: c.threads.create(metadata={"team": "payments"}),
        lambda made: made["metadata"]["team"] == "payments",
    ),
    "threads.get": Method(lambda c, k: c.threads.get(k.asking), lambda found: found["status"] == "interrupted"),
    "threads.update": Method(
        lambda c, k: c.threads.update(k.thread_id, metadata={"room": "4"}),
        lambda found: found["metadata"]["room"] == "4",
    ),
    "threads.search": Method(
        lambda c, k: c.threads.search(metadata={"room": "4", "graph_id": AGENT}, ids=[k.thread_id]),
        lambda found: len(found) == 1 and found[0]["values"]["messages"],
    ),
    "threads.count": Method(lambda c, _: c.threads.count(status="interrupted"), lambda found: found >= 1),
    "threads.copy": Method(lambda c, k: c.threads.copy(k.thread_id), lambda made: made["metadata"]["room"] == "4"),
    "threads.get_state": Method(lambda c, k: c.threads.get_state(k.thread_id), lambda found: found["next"] == []),
    "threads.get_history": Method(lambda c, k: c.threads.get_history(k.thread_id, limit=2), lambda f: len(f) == 2),
    "threads.update_state": Method(
        lambda c, k: c.threads.update_state(k.thread_id, {"rounds": 5}, as_node="tools", checkpoint=k.checkpoint),
        lambda made: made["checkpoint"]["checkpoint_id"] != "",
    ),
    "threads.join_stream": refused(422, "stream/events", lambda c, k: c.threads.join_stream(k.thread_id)),
    "threads.stream": Method(session, lambda made: made["run_id"]),
    "runs.create": Method(lambda c, _: c.runs.create(None, AGENT, input=GIVEN), lambda made: made["run_id"]),
    "runs.create_batch": Method(
        lambda c, _: c.runs.create_batch([{"assistant_id": AGENT, "input": GIVEN}]), lambda made: len(made) == 1
    ),
    "runs.stream": Method(lambda c, _: c.runs.stream(None, AGENT, input=GIVEN), lambda f: f[-1].event == "end"),
    "runs.wait": Method(lambda c, _: c.runs.wait(None, AGENT, input=GIVEN), lambda found: found["messages"]),
    "runs.list": Method(lambda c, k: c.runs.list(k.thread_id, limit=1), lambda found: len(found) == 1),
    "runs.get": Method(lambda c, k: c.runs.get(k.thread_id, k.run_id), lambda found: found["status"] == "success"),
    "runs.join": Method(lambda c, k: c.runs.join(k.thread_id, k.run_id), lambda found: found["messages"]),
    "runs.join_stream": Method(lambda c, k: c.runs.join_stream(k.thread_id, k.run_id), lambda f: f[-1].event == "end"),
    "runs.cancel": Method(lambda c, k: c.runs.cancel(k.thread_id, k.run_id)),
    "runs.cancel_many": Method(lambda c, k: c.runs.cancel_many(thread_id=k.asking, status="all")),
    "runs.delete": refused(422, "stays on record", lambda c, k: c.runs.delete(k.thread_id, k.run_id)),
    "store.put_item": Method(lambda c, _: c.store.put_item(NAMESPACE, "diet", {"eats": "fish", "n": 3}, ttl=60)),
    "store.get_item": Method(lambda c, _: c.store.get_item(NAMESPACE, "diet"), lambda f: f["value"]["eats"] == "fish"),
    "store.search_items": Method(
        lambda c, _: c.store.search_items(["people"], filter={"n": {"$gt": 2}}),
        lambda f: f["items"][0]["key"] == "diet",
    ),
    "store.list_namespaces": Method(
        lambda c, _: c.store.list_namespaces(prefix=["people"], max_depth=2),
        lambda found: found["namespaces"] == [NAMESPACE],
    ),
    "store.delete_item": Method(lambda c, _: c.store.delete_item(NAMESPACE, "diet")),
    "crons.create": refused(422, "not offered yet", lambda c, _: c.crons.create(AGENT, schedule="* * * * *")),
    "crons.create_for_thread": refused(
        422, "not offered yet", lambda c, k: c.crons.create_for_thread(k.thread_id, AGENT, schedule="* * * * *")
    ),
    "crons.search": refused(422, "not offered yet", lambda c, _: c.crons.search()),
    "crons.count": refused(422, "not offered yet", lambda c, _: c.crons.count()),
    "crons.update": refused(
        422, "not offered yet", lambda c, _: c.crons.update(str(uuid.uuid4()), schedule="* * * * *")
    ),
    "crons.delete": refused(422, "not offered yet", lambda c, _: c.crons.delete(str(uuid.uuid4()))),
    "threads.prune": Method(lambda c, k: c.threads.prune([k.asking]), lambda found: found["pruned_count"] == 1),
    "threads.delete": Method(lambda c, k: c.threads.delete(k.thread_id)),
}
OK: tuple[int, str] = (0, "")
# Of the parameters of `runs.stream`, what each value comes to: it is taken, or refused in words.
PARAMETERS: dict[str, list[tuple[Any, tuple[int, str]]]] = {
    "stream_mode": [
        (["values", "updates", "messages-tuple", "messages", "custom", "checkpoints", "events", "tasks", "debug"], OK),
        *((mode, (422, "stream_mode")) for mode in ("tools",)),
    ],
    "stream_subgraphs": [(True, OK)],
    "stream_resumable": [(True, OK), (False, OK)],
    "metadata": [({"team": "x", "n": 1}, OK), ({"team": ["x"]}, (422, "metadata.team"))],
    "config": [({"tags": ["a"], "recursion_limit": 30, "configurable": {"who": "ana"}}, OK)],
    "context": [({"nobody": "knows"}, (422, "context"))],
    "command": [
        ({"resume": "x"}, (409, "no run of the thread asks")),
        ({"goto": "tools"}, (422, "command")),
        ({"update": {"rounds": 1}}, (422, "command")),
        ({"goto": "__end__"}, (409, "no state yet")),
    ],
    "checkpoint": [({"checkpoint_id": f"{uuid.uuid4()}:x"}, (404, "checkpoint"))],
    "checkpoint_id": [(f"{uuid.uuid4()}:x", (404, "checkpoint"))],
    "checkpoint_during": [(False, OK)],
    "interrupt_before": [("*", (422, "interrupt_before"))],
    "interrupt_after": [(["model"], (422, "interrupt_after"))],
    "feedback_keys": [(["stars"], (422, "feedback"))],
    "on_disconnect": [("cancel", OK), ("continue", OK)],
    "on_completion": [("keep", OK), ("delete", (422, "on_completion"))],
    "webhook": [("https://example.com", (422, "calls nobody"))],
    "multitask_strategy": [(strategy, OK) for strategy in ("reject", "enqueue", "interrupt", "rollback")],
    "if_not_exists": [("create", OK), ("reject", OK)],
    "after_seconds": [(3, (422, "after_seconds"))],
    "langsmith_tracing": [({"project_name": "x"}, OK)],
    "durability": [("sync", OK), ("async", OK), ("exit", OK)],
    "strict_resume": [(True, OK)],
}
# What only the SDK itself reads, or all calls have.
OF_THE_SDK = {
    "self",
    "thread_id",
    "assistant_id",
    "input",
    "headers",
    "params",
    "on_run_created",
    "version",
    "raise_error",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(harbour: World) -> AsyncIterator[Platform]:
    """A platform that offers the graphs of a folder."""
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER)}}
    async with platform(harbour, service_env=env, http_replicas=1) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client(served: Platform) -> AsyncIterator[Sdk]:
    """The client with coroutines."""
    async with get_client(url=url_of(served), api_key=served.token(CALLER)) as made:
        yield made


async def known_to(client: Sdk) -> Known:
    thread_id, asking = [(await client.threads.create())["thread_id"] for _ in range(2)]
    await client.runs.wait(thread_id, AGENT, input=GIVEN)
    await client.runs.wait(asking, "guarded", input=HITL)
    [run] = await client.runs.list(thread_id)
    history = await client.threads.get_history(thread_id)
    return Known(thread_id, run["run_id"], asking, history[1]["checkpoint"])


async def settled(result: Any) -> Any:
    """What a method of either client comes to."""
    if isinstance(result, Awaitable):
        result = await result
    return [each async for each in result] if isinstance(result, AsyncIterator) else result


def listed(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


async def tried(method: Method, call: Callable[[], Awaitable[Any]]) -> str:
    """What is wrong with what a method came to; nothing where it is as expected."""
    try:
        result = await call()
    except APIStatusError as error:
        as_expected = method.status == error.status_code and method.words in str(error)
        return "" if as_expected else f"{error.status_code}: {error}"
    except httpx.HTTPStatusError as error:  # what the SDK's newer half raises
        as_expected = method.status == error.response.status_code and method.words in error.response.text
        return "" if as_expected else f"{error}: {error.response.text}"
    if method.status:
        return f"was not refused: {result}"
    return "" if method.holds(result) else f"is {result}"


def methods_of(client: Sdk) -> set[str]:
    return {
        f"{name}.{method}"
        for name in CLIENTS
        for method, _ in inspect.getmembers(getattr(client, name), inspect.ismethod)
        if not method.startswith("_")
    }


async def test_each_method_with_coroutines_works_or_is_refused_in_words(client: Sdk) -> None:
    assert methods_of(client) == METHODS.keys()
    known = await known_to(client)
    found = {name: await tried(method, lambda: settled(method.call(client, known))) for name, method in METHODS.items()}  # noqa: B023 - called at once
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


async def test_each_method_without_coroutines_works_or_is_refused_in_words(served: Platform, client: Sdk) -> None:
    known = await known_to(client)
    with get_sync_client(url=url_of(served), api_key=served.token(CALLER)) as alone:
        assert methods_of(alone) == METHODS.keys()
        found = {
            name: await tried(method, lambda: asyncio.to_thread(lambda: listed(method.call(alone, known))))  # noqa: B023 - called at once
            for name, method in METHODS.items()
        }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


async def test_each_parameter_of_runs_is_honoured_or_refused_in_words(client: Sdk) -> None:
    kinds = langgraph_sdk._async.runs.RunsClient
    asked = {name for of in (kinds.stream, kinds.create, kinds.wait) for name in inspect.signature(of).parameters}
    assert asked - OF_THE_SDK == PARAMETERS.keys()
    wrong = {}
    for name, values in PARAMETERS.items():
        for value, (status, words) in values:
            given = {} if name == "command" else {"input": GIVEN}

            def call(name: str = name, value: Any = value, given: Any = given) -> Awaitable[Any]:
                thread_id = str(uuid.uuid4())
                return settled(client.runs.stream(thread_id, AGENT, **given, **{name: value}))

            method = Method(
                lambda *_: None, lambda f: f[-1].event == "end" and "error" not in [p.event for p in f], status, words
            )
            if problem := await tried(method, call):
                wrong[f"{name}={value}"] = problem
    assert wrong == {}
