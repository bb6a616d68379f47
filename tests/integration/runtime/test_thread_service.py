"""ThreadService over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import runs_pb2, threads_pb2, threads_pb2_grpc

from services.kit.identity.caller import Caller
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.thread_servicer import ThreadServicer
from services.runtime.engine.records import RunRecord
from services.runtime.engine.run_states import RunStates
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.engine.threads import ThreadStore
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import Counting, Replica, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica, ended, new_run


def mine() -> tuple[tuple[str, str], ...]:
    """The gateway's word about the owner, good for a minute."""
    return gateway_word("27")


async def nothing(run: RunRecord, *, chunks: bool = False) -> None:
    """Tells nobody of a fork."""
    del run, chunks


@pytest.fixture
async def threads(
    platform_pool: AsyncConnectionPool[Any], first: RunStore
) -> AsyncIterator[threads_pb2_grpc.ThreadServiceAsyncStub]:
    """The service alone."""

    def make(callers: Callers) -> Registration:
        store = ThreadStore(platform_pool, make_serde(), first, {"counting": Counting().agent("counting")})
        add = threads_pb2_grpc.add_ThreadServiceServicer_to_server
        return Registration(
            add,
            ThreadServicer(callers, store, RunStates(platform_pool, make_serde(), first, {}), nothing),
            "signalbox.v1.ThreadService",
        )

    async with serving(make) as channel:
        yield threads_pb2_grpc.ThreadServiceStub(channel)


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


async def counted(replica: Replica, thread_id: str) -> str:
    """A run of a thread that has counted to two."""
    run, _ = await replica.engine.create(new_run(thread_id=thread_id, until=2))
    await asyncio.wait_for(ended(replica, run), 60)
    return run.run_id


async def test_threads_are_listed_page_by_page(
    replica: Replica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    for name in ("a", "b", "c"):
        await counted(replica, name)
    request = threads_pb2.ListThreadsRequest(page_size=2)
    pages: list[list[str]] = []
    while not pages or request.page_token:
        response = await threads.ListThreads(request, metadata=mine())
        pages.append([thread.thread_id for thread in response.threads])
        request.page_token = response.next_page_token
    assert pages == [["c", "b"], ["a"]]
    for many in ({f"k{number}": None for number in range(21)}, {"k": "x" * 8192}):
        wide = threads_pb2.ListThreadsRequest()
        wide.metadata.update(many)
        detail = await refusal(threads.ListThreads(wide, metadata=mine()))
        assert (detail.code, detail.message[:9]) == (grpc.StatusCode.INVALID_ARGUMENT, "metadata:")
    request.page_token = "nonsense"
    detail = await refusal(threads.ListThreads(request, metadata=mine()))
    assert (detail.code, detail.violations[0].field) == (grpc.StatusCode.INVALID_ARGUMENT, "page_token")


async def test_a_thread_its_runs_and_their_state_are_read_back(
    replica: Replica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    run_id = await counted(replica, "talk")
    found = await threads.GetThread(threads_pb2.GetThreadRequest(thread_id="talk"), metadata=mine())
    assert (found.thread.thread_id, found.thread.run_count) == ("talk", 1)
    assert [(run.run_id, run.state) for run in found.runs] == [(run_id, runs_pb2.RUN_STATE_SUCCEEDED)]

    request = threads_pb2.GetThreadStateRequest(thread_id="talk", run_id=run_id)
    latest = await threads.GetThreadState(request, metadata=mine())
    assert [each.step for each in latest.checkpoints] == [-1, 0, 1, 2, 3]
    assert json_format.MessageToDict(latest.state.values)["counts"] == [1, 2]
    request.checkpoint_id = latest.checkpoints[2].checkpoint_id
    earlier = await threads.GetThreadState(request, metadata=mine())
    assert (list(earlier.state.next_nodes), earlier.state.checkpoint) == (["count"], latest.checkpoints[2])


async def test_a_thread_is_forked_and_deleted(
    replica: Replica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    run_id = await counted(replica, "talk")
    state = await threads.GetThreadState(
        threads_pb2.GetThreadStateRequest(thread_id="talk", run_id=run_id), metadata=mine()
    )
    plain = await threads.ForkThread(threads_pb2.ForkThreadRequest(thread_id="talk", run_id=run_id), metadata=mine())
    assert (plain.thread.run_count, plain.HasField("run")) == (1, False)
    request = threads_pb2.ForkThreadRequest(
        thread_id="talk", run_id=run_id, checkpoint_id=state.checkpoints[1].checkpoint_id, new_thread_id="fork"
    )
    forked = await threads.ForkThread(request, metadata=mine())
    assert (forked.thread.thread_id, forked.thread.active_run_id) == ("fork", forked.run.run_id)
    detail = await refusal(threads.ForkThread(request, metadata=mine()))
    assert (detail.code, detail.reason) == (grpc.StatusCode.ALREADY_EXISTS, "THREAD_EXISTS")

    gone = await threads.DeleteThread(threads_pb2.DeleteThreadRequest(thread_id="talk"), metadata=mine())
    assert (gone.run_count, gone.decision_count) == (1, 2)


async def test_to_a_stranger_a_thread_is_not_there(
    replica: Replica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    run_id = await counted(replica, "talk")
    stranger = gateway_word("28", "operator")
    for call in (
        threads.GetThread(threads_pb2.GetThreadRequest(thread_id="talk"), metadata=stranger),
        threads.GetThreadState(threads_pb2.GetThreadStateRequest(thread_id="talk", run_id=run_id), metadata=stranger),
        threads.ForkThread(threads_pb2.ForkThreadRequest(thread_id="talk", run_id=run_id), metadata=stranger),
        threads.DeleteThread(threads_pb2.DeleteThreadRequest(thread_id="talk"), metadata=stranger),
    ):
        assert (await refusal(call)).code is grpc.StatusCode.NOT_FOUND


async def test_who_lost_a_role_of_a_run_finds_it_without_what_it_asks(
    start_replica: StartReplica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    counting = Counting()
    counting.asks = {2}
    replica = await start_replica(counting)
    made_by = Caller("27", frozenset({"writer"}))
    run, _ = await replica.engine.create(new_run(thread_id="talk", until=2, caller=made_by))
    await asyncio.wait_for(ended(replica, run), 60)
    request = threads_pb2.GetThreadRequest(thread_id="talk")
    asked = {
        who: (await threads.GetThread(request, metadata=gateway_word(*who))).runs[0].input_request.question
        for who in (("27", "writer"), ("27",))
    }
    assert asked == {("27", "writer"): "Go on?", ("27",): ""}


async def test_a_run_id_may_be_spelled_in_capitals(
    replica: Replica, threads: threads_pb2_grpc.ThreadServiceAsyncStub
) -> None:
    run_id = await counted(replica, "talk")
    request = threads_pb2.GetThreadStateRequest(thread_id="talk", run_id=run_id.upper())
    assert (await threads.GetThreadState(request, metadata=mine())).checkpoints
