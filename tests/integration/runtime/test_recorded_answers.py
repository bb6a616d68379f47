"""What nodes hear, kept with the step that follows from it: once, in order, by whoever executes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import recorded_answers_pb2, runs_pb2, runs_pb2_grpc

from services.kit.models.completions import Completions, Endpoint
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.calls.recording import MOST_BYTES_WITH_REQUESTS, RecordedModel
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.queries import query
from services.runtime.engine.questions import Answer
from services.runtime.engine.recorded_answers import RecordedAnswers
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import ThreadStore
from services.runtime.errors import DependencyAway
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import Counting, Replica, gateway_word, serving
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
MODEL = "oracle"
Hook = Callable[[], Awaitable[None]]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model that numbers its answers."""
    async with ScriptedModel() as server:
        server.script(MODEL, [Reply.text(f"answer {number}") for number in range(1, 20)])
        yield server


@pytest.fixture
async def completions(model: ScriptedModel) -> AsyncIterator[RecordedModel]:
    made = RecordedModel(Completions(Endpoint(model.base_url, "the-key", 10.0, 0)))
    yield made
    await made.close()


def asking(completions: RecordedModel, then: Hook | None = None) -> Hook:
    """A count that asks the model first."""

    async def ask() -> None:
        await completions.create({"model": MODEL, "messages": [{"role": "user", "content": "What now?"}]})
        if then:
            await then()

    return ask


async def heard(pool: PlatformPool, run: RunRecord) -> list[str]:
    """What a recording holds, in words."""
    rows, _ = await RecordedAnswers(pool).page(run.run_id, run.caller, 0)
    assert [sequence for sequence, _ in rows] == list(range(1, len(rows) + 1))
    answers = [recorded_answers_pb2.RecordedAnswer.FromString(answer) for _, answer in rows]
    for each in answers:
        asked = {"messages": [{"role": "user", "content": "What now?"}]} if each.source == "model" else {}
        assert (MessageToDict(each.request), each.request_bytes) == (asked, 0)
    return [
        json.loads(each.answer)["choices"][0]["message"]["content"] if each.source == "model" else each.source
        for each in answers
    ]


async def until_asked(replica: Replica, run: RunRecord) -> RunRecord:
    """Waits until a run asks a person, and returns it as it does."""
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, 0):
            if (event.payload or {}).get("input_request"):
                break
    return await replica.store.get(run.run_id, run.caller)


async def test_a_step_takes_along_what_it_heard_and_nothing_in_vain(
    start_replica: StartReplica, completions: RecordedModel, platform_pool: PlatformPool
) -> None:
    first, second = Counting(), Counting()
    asked, lost = asyncio.Event(), asyncio.Event()
    away, hangs = iter([True]), iter([True])

    async def be_away_once() -> None:
        if next(away, False):
            raise DependencyAway("oracle", "UNAVAILABLE")

    async def hang_once() -> None:
        if next(hangs, False):
            asked.set()
            await lost.wait()

    # The second number waits for what is away, the third asks a person, the fourth outlives its replica's claim.
    for counting in (first, second):
        counting.asks = {3}
        counting.failures = {number: asking(completions) for number in (1, 5)}
        counting.failures[2] = asking(completions, be_away_once)
        counting.failures[4] = asking(completions, hang_once)
    one = await start_replica(first)
    run, _ = await one.engine.create(new_run(until=5, recorded=True))
    waiting = await until_asked(one, run)
    # 2 is what was heard before the wait.
    assert await heard(platform_pool, run) == ["answer 1", "answer 3"]
    assert waiting.input_request is not None
    await one.engine.answer(run.caller, Answer(run.run_id, waiting.input_request.input_request_id, "yes"))
    async with asyncio.timeout(TIMEOUT_S):
        await asked.wait()
    two = await start_replica(second)
    async with platform_pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET owner = 'gone', lease_expires_at = now() WHERE run_id = %s", (run.run_id,)
        )
    done = await ended(two, run)
    lost.set()
    assert (done.state, done.epoch > 1) == (RunState.SUCCEEDED, True)
    # 4 is what was heard for the step that the lost claim could not take, whichever replica made the next.
    assert await heard(platform_pool, run) == ["answer 1", "answer 3", "person", "answer 5", "answer 6"]


async def test_whoever_goes_on_with_a_run_that_recorded_much_keeps_answers_alone(
    start_replica: StartReplica, completions: RecordedModel, platform_pool: PlatformPool
) -> None:
    counting = Counting()
    counting.asks, counting.failures = {2}, {3: asking(completions)}
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=3, recorded=True))
    waiting = await until_asked(replica, run)
    assert waiting.input_request is not None
    large = recorded_answers_pb2.RecordedAnswer(source="model", method="chat", answer=bytes(MOST_BYTES_WITH_REQUESTS))
    async with platform_pool.connection() as connection:
        await connection.execute(query("put_answers"), {"run_id": run.run_id, "answers": [large.SerializeToString()]})
    await replica.engine.answer(run.caller, Answer(run.run_id, waiting.input_request.input_request_id, "yes"))
    assert (await ended(replica, run)).state is RunState.SUCCEEDED
    rows, _ = await RecordedAnswers(platform_pool, most_bytes=2**30).page(run.run_id, run.caller, 0)
    last = recorded_answers_pb2.RecordedAnswer.FromString(rows[-1][1])
    assert (last.source, last.HasField("request"), last.request_bytes > 0) == ("model", False, True)


async def test_a_run_that_is_not_to_be_recorded_leaves_nothing(
    start_replica: StartReplica, completions: RecordedModel, platform_pool: PlatformPool
) -> None:
    counting = Counting()
    counting.failures = {1: asking(completions)}
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await ended(replica, run)
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM platform.recorded_answers")
        assert await cursor.fetchall() == [(0,)]


async def test_a_recording_goes_with_its_thread_and_is_read_by_who_may_see_it(
    start_replica: StartReplica, completions: RecordedModel, platform_pool: PlatformPool
) -> None:
    counting = Counting()
    counting.failures = {1: asking(completions), 2: asking(completions)}
    replica = await start_replica(counting, agent="data_chat")
    run, _ = await replica.engine.create(new_run(agent="data_chat", thread_id="talk", recorded=True))
    bare, _ = await replica.engine.create(new_run(agent="data_chat"))
    for each in (run, bare):
        await ended(replica, each)

    def make(callers: Callers) -> Registration:
        agents = {"data_chat": replica.agent}
        servicer = RunServicer(
            replica.engine, replica.store, replica.pool, replica.directory(agents), callers, replica.pins
        )
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    async with serving(make) as channel:
        stub = runs_pb2_grpc.RunServiceStub(channel)

        def ask(run_id: str, *who: str, **more: Any) -> Any:
            request = runs_pb2.ListRecordedAnswersRequest(run_id=run_id, **more)
            return stub.ListRecordedAnswers(request, metadata=gateway_word(*who))

        page = await ask(run.run_id, "27")
        assert [each.source for each in page.answers] == ["model", "model"]
        rows, more = await RecordedAnswers(replica.pool, most_bytes=1).page(run.run_id, run.caller, 0)
        assert ([sequence for sequence, _ in rows], more) == ([1], True)
        last = await ask(run.run_id, "27", page_token=page.next_page_token)
        assert (list(last.answers), last.next_page_token) == ([], "")
        # More of it than one message may hold comes in several.
        large = recorded_answers_pb2.RecordedAnswer(source="model", method="chat", answer=bytes(1_500_000))
        async with platform_pool.connection() as connection:
            given = {"run_id": run.run_id, "answers": [large.SerializeToString()] * 4}
            await connection.execute(query("put_answers"), given)
        page, sizes = await ask(run.run_id, "27"), list[int]()
        while page.answers:
            sizes += [len(each.answer) for each in page.answers]
            page = await ask(run.run_id, "27", page_token=page.next_page_token)
        assert sizes[2:] == [1_500_000] * 4
        refused = await refusal(ask(bare.run_id, "27"))
        assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_NOT_RECORDED")
        refused = await refusal(ask(run.run_id, "31"))
        assert refused.reason == "RUN_NOT_FOUND"
        await ThreadStore(platform_pool, make_serde(), replica.store, {}).delete(run.caller, "talk")
        assert (await refusal(ask(run.run_id, "27"))).reason == "RUN_NOT_FOUND"
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM platform.recorded_answers")
        assert await cursor.fetchall() == [(0,)]
