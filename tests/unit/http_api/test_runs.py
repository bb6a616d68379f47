"""What is asked of the gateway for a run, and when what a thread's run asks is given up for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from signalbox.v1 import agents_pb2, hosted_pb2, runs_pb2, threads_pb2
from starlette.requests import Request

from services.http_api.errors import ApiError, Busy, Conflict, GatewayAway, Invalid
from services.http_api.event_stream import Streams
from services.http_api.forks import THREAD_BUSY
from services.http_api.json_bodies import BodyReader
from services.http_api.runs import RunRoutes

TALK = agents_pb2.Agent(name="talk", input_type=hosted_pb2.GraphInput.DESCRIPTOR.full_name)
GIVEN: dict[str, Any] = {"assistant_id": "talk", "input": {"text": "one"}}


def a_run(name: str, created_s: int, *, asks: bool = False) -> runs_pb2.Run:
    run = runs_pb2.Run(run_id=name, agent="talk", thread_id="t")
    run.create_time.FromSeconds(created_s)
    if asks:
        run.input_request.question = "What?"
    return run


class FakeGateway:
    """A gateway with a thread, one of whose runs may ask; it creates one run, or says no."""

    def __init__(
        self, *runs: runs_pb2.Run, creates: runs_pb2.Run | ApiError, forks: ApiError | None = None, most: int = 100
    ) -> None:
        self.asked: list[str] = []
        self.requests: list[Any] = []
        self._runs = runs
        self._creates = creates
        self._forks = forks
        self._most = most
        self.stubs = SimpleNamespace(
            agents=SimpleNamespace(ListAgents=lambda _: agents_pb2.ListAgentsResponse(agents=[TALK])),
            runs=SimpleNamespace(CreateRun=self._create, CancelRun=self._cancel, ResumeRun=self._resume),
            threads=SimpleNamespace(GetThread=self._thread, GetRunState=self._state, ForkRun=self._fork),
        )

    def caller(self, _request: Request) -> FakeGateway:
        return self

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    async def watch(self, _request: Any) -> AsyncGenerator[runs_pb2.RunEvent, None]:
        await asyncio.Event().wait()  # the run is queued
        yield runs_pb2.RunEvent()

    def _thread(self, _request: Any) -> threads_pb2.GetThreadResponse:
        return threads_pb2.GetThreadResponse(runs=self._runs)

    def _state(self, _request: Any) -> threads_pb2.GetRunStateResponse:
        checkpoints = [threads_pb2.Checkpoint(checkpoint_id=name, step=step) for step, name in enumerate("ab")]
        state = threads_pb2.ThreadState(checkpoint=checkpoints[-1])
        return threads_pb2.GetRunStateResponse(state=state, checkpoints=checkpoints)

    def _create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.CreateRunResponse:
        self.asked.append("create")
        self.requests.append(request)
        if len(self.requests) > self._most:
            raise Busy("quota")
        if isinstance(self._creates, ApiError):
            raise self._creates
        return runs_pb2.CreateRunResponse(run=self._creates)

    def _resume(self, request: runs_pb2.ResumeRunRequest) -> runs_pb2.ResumeRunResponse:
        self.requests.append(request)
        return runs_pb2.ResumeRunResponse(run=self._runs[0])

    def _cancel(self, request: runs_pb2.CancelRunRequest) -> runs_pb2.CancelRunResponse:
        self.asked.append(f"cancel {request.run_id}")
        self._forks = None
        return runs_pb2.CancelRunResponse()

    def _fork(self, request: threads_pb2.ForkRunRequest) -> threads_pb2.ForkRunResponse:
        self.asked.append("fork")
        self.requests.append(request)
        if self._forks:
            raise self._forks
        return threads_pb2.ForkRunResponse(run=a_run("fork", 9))


def routes(gateway: FakeGateway, heartbeat_s: float = 5) -> RunRoutes:
    asked: Any = gateway
    streams = Streams(most=2, heartbeat_s=heartbeat_s, send_timeout_s=5)
    return RunRoutes(asked, BodyReader(max_bytes=10_000, timeout_s=5), streams, recovery_s=5)


def request(body: Any, key: str = "", thread_id: str = "t") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": orjson.dumps(body)}

    headers = [(b"content-type", b"application/json"), *([(b"idempotency-key", key.encode())] if key else [])]
    path_params = {"thread_id": thread_id} if thread_id else {}
    return Request({"type": "http", "headers": headers, "path_params": path_params}, receive)


@pytest.mark.parametrize("refusal", [Busy("quota"), GatewayAway("away"), Invalid("a label")])
async def test_a_refused_run_leaves_the_question_open(refusal: ApiError) -> None:
    gateway = FakeGateway(a_run("asking", 1, asks=True), creates=refusal)
    with pytest.raises(type(refusal)):
        await routes(gateway).create(request(GIVEN))
    assert gateway.asked == ["create"]


async def test_a_new_run_ends_the_question_and_a_repeat_does_not() -> None:
    asking = a_run("asking", 5, asks=True)
    new = FakeGateway(asking, creates=a_run("new", 6))
    assert orjson.loads((await routes(new).create(request(GIVEN, "k"))).body)["run_id"] == "new"
    assert new.asked == ["create", "cancel asking"]
    for found in (a_run("earlier", 4), asking):
        again = FakeGateway(asking, creates=found)
        await routes(again).create(request(GIVEN, "k"))
        assert again.asked == ["create"]


async def test_runs_are_cancelled_by_the_names_of_their_parts_too() -> None:
    gateway = FakeGateway(creates=a_run("new", 6))
    asked = Request({**request({}).scope, "query_string": b""}, request({"run_ids": ["one~1", "two"]}).receive)
    assert (await routes(gateway).cancel_many(asked)).status_code == 204
    assert gateway.asked == ["cancel one", "cancel two"]


async def test_a_fork_makes_room_only_where_the_thread_is_busy() -> None:
    earlier = {**GIVEN, "checkpoint": {"checkpoint_id": "done:a"}}
    asking, done = a_run("asking", 5, asks=True), a_run("done", 1)
    gateway = FakeGateway(asking, done, creates=asking, forks=Conflict("busy", reason=THREAD_BUSY))
    await routes(gateway).create(request(earlier, "k"))
    assert gateway.asked == ["fork", "cancel asking", "fork"]
    assert {each.request_id for each in gateway.requests} == {"k"}
    refused = FakeGateway(asking, done, creates=asking, forks=Conflict("reused", reason="REQUEST_ID_REUSED"))
    with pytest.raises(Conflict):
        await routes(refused).create(request(earlier, "k"))
    assert refused.asked == ["fork"]


async def test_who_shows_a_step_of_what_they_roll_back_goes_on_from_before_it() -> None:
    active, done = a_run("active", 5), a_run("done", 1)
    done.end_time.FromSeconds(2)

    async def asked(checkpoint_id: str) -> list[str]:
        gateway = FakeGateway(active, done, creates=a_run("new", 6))
        from_there = {"checkpoint": {"checkpoint_id": checkpoint_id}, "multitask_strategy": "rollback"}
        await routes(gateway).create(request({**GIVEN, **from_there}))
        return gateway.asked

    assert await asked("done:b") == await asked("active:a") == ["create"]
    with pytest.raises(Invalid, match="multitask_strategy"):
        await asked("done:a")


async def test_a_key_is_each_runs_own_and_none_of_an_answer() -> None:
    gateway = FakeGateway(a_run("asking", 5, asks=True), creates=a_run("new", 6))
    await routes(gateway).create_batch(request([GIVEN, GIVEN], "k", thread_id=""))
    assert [each.request_id for each in gateway.requests] == ["k:0", "k:1"]
    with pytest.raises(Invalid, match="Idempotency-Key"):
        await routes(gateway).create(request({"assistant_id": "talk", "command": {"resume": "yes"}}, "k"))


async def test_the_stream_of_a_queued_run_says_that_it_is_there() -> None:
    sent: list[Any] = []
    heartbeat, left = asyncio.Event(), asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body", b"").startswith(b":"):
            heartbeat.set()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    gateway = FakeGateway(creates=a_run("new", 6))
    async with asyncio.timeout(10):
        asked = request({**GIVEN, "on_disconnect": "cancel"})
        answer = await routes(gateway, heartbeat_s=0.01).stream(asked)
        telling = asyncio.ensure_future(answer({"type": "http"}, receive, send))
        await heartbeat.wait()
        left.set()
        await telling
    assert sent[0]["type"] == "http.response.start"
    assert gateway.asked == ["create", "cancel new"]


async def test_who_shows_a_state_that_retention_has_removed_joins_all_the_same() -> None:
    run = a_run("0199b2f4-7f6a-7b3c-9d6f-2f1f6c1d0a11", 1)
    gateway = FakeGateway(run, creates=run)
    gateway.stubs.runs.GetRun = lambda _: runs_pb2.GetRunResponse(run=run)
    path_params = {"thread_id": "t", "run_id": run.run_id}
    for shown in "bz":
        query = f"checkpoint_id={run.run_id}:{shown}".encode()
        asked = Request({"type": "http", "headers": [], "path_params": path_params, "query_string": query})
        assert (await routes(gateway).join_stream(asked)).status_code == 200


async def test_a_batch_is_created_whole_or_not_at_all() -> None:
    wrong = {**GIVEN, "metadata": {"a": []}}
    gateway = FakeGateway(creates=a_run("new", 6))
    with pytest.raises(Invalid):
        await routes(gateway).create_batch(request([GIVEN, wrong]))
    assert gateway.asked == []

    async def asked_of(key: str) -> list[str]:
        full = FakeGateway(creates=a_run("new", 6), most=2)
        with pytest.raises(Busy):
            await routes(full).create_batch(request([GIVEN] * 3, key))
        return full.asked

    assert await asked_of("") == ["create", "create", "create", "cancel new", "cancel new"]
    # A repeat finds them.
    assert await asked_of("k") == ["create", "create", "create"]


@pytest.mark.parametrize(("modes", "listens"), [(["values", "messages-tuple"], True), (["values"], False)])
@pytest.mark.parametrize("body", [{}, {"checkpoint": {"checkpoint_id": "done:a"}}, {"command": {"resume": "yes"}}])
async def test_who_streams_what_models_say_is_expected_before_the_run_begins(
    body: dict[str, Any], modes: list[str], listens: bool
) -> None:
    runs = a_run("asking", 5, asks=True), a_run("done", 1)
    gateway = FakeGateway(*runs, creates=a_run("new", 1))
    await routes(gateway).stream(request({**GIVEN, **body, "stream_mode": modes}))
    assert [asked.token_chunks for asked in gateway.requests] == [listens]
