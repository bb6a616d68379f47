"""A run knows its budget, and nothing of the call that began it: neither its deadline, nor its end, nor its baggage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import uuid4

import grpc
import pytest
from opentelemetry import baggage, context
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc
from signalbox_routing.table import StateUpdate

from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.kit.wire import deadline
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.records import RunState
from services.runtime.engine.run_search import RunFilter, RunSearch
from services.runtime.routing.run_context import NodeContext
from tests.fixtures.client import given_up
from tests.fixtures.replica import KEYS, Counting, Replica, gateway_word, open_replica, serving
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 120.0
AGENT = "data_chat"  # what the input's field is called
CALLER = "27"
ResponseT = TypeVar("ResponseT")
_of_the_caller: ContextVar[str] = ContextVar("of_the_caller", default="")


class Attentive(Counting):
    """Counts, and notes what each node sees of whoever asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[float | None, str, object]] = []

    async def _count(self, state: Any, context: NodeContext) -> StateUpdate:
        update = await super()._count(state, context)
        self.seen.append((deadline.remaining(), _of_the_caller.get(), baggage.get_baggage("of.the.caller")))
        return update


@pytest.fixture
async def replica(platform_dsn: str) -> AsyncIterator[Replica]:
    async with open_replica(platform_dsn, Attentive(), agent=AGENT) as made:
        yield made


@pytest.fixture
async def runtime(replica: Replica) -> AsyncIterator[runs_pb2_grpc.RunServiceAsyncStub]:
    """The replica over gRPC, called with the kit's own client."""
    servicer = RunServicer(
        replica.engine,
        replica.store,
        replica.pool,
        replica.directory({AGENT: replica.agent}),
        Callers(CallerTokenVerifier(KEYS.public_pem), ClockWatch(0)),
        replica.pins,
    )
    registration = Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")
    async with serving(lambda _: registration) as channel:
        yield runs_pb2_grpc.RunServiceStub(channel)


def asked(until: int) -> runs_pb2.CreateRunRequest:
    return runs_pb2.CreateRunRequest(
        input=runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=str(until))), request_id=str(uuid4())
    )


async def within(timeout_s: float, call: Callable[[float], Awaitable[ResponseT]]) -> ResponseT:
    """Makes a call that has so much time; on a machine that is too busy for that, again."""
    while True:
        try:
            return await call(timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED and not given_up(error):
                raise


async def passed(seconds: float) -> None:
    """Waits until a deadline that was given just before is over, as a task sees it that inherited it."""
    deadline.set_remaining(seconds)
    while deadline.remaining():  # noqa: ASYNC110 - it is time that is waited for
        await asyncio.sleep(0.05)
    deadline.set_remaining(None)


async def state_of(replica: Replica, run_id: str) -> RunState:
    async with asyncio.timeout(TIMEOUT_S):
        [run] = (await RunSearch(replica.pool).page(new_run(CALLER).caller, RunFilter(), limit=1)).runs
        assert run.run_id == run_id
        return (await ended(replica, run)).state


async def test_a_run_outlives_the_deadline_of_the_call_that_created_it(
    replica: Replica, runtime: runs_pb2_grpc.RunServiceAsyncStub
) -> None:
    gate = replica.counting.hold(2)
    created = await within(
        1, lambda timeout_s: runtime.CreateRun(asked(3), metadata=gateway_word(CALLER), timeout=timeout_s)
    )
    await passed(1)
    gate.set()
    assert await state_of(replica, created.run.run_id) is RunState.SUCCEEDED
    assert isinstance(replica.counting, Attentive)
    assert [left for left, _, _ in replica.counting.seen] == [None, None, None]


async def test_a_run_outlives_a_watcher_whose_time_is_up(
    replica: Replica, runtime: runs_pb2_grpc.RunServiceAsyncStub
) -> None:
    gate = replica.counting.hold(2)
    request = runs_pb2.ExecuteRunRequest(create=asked(3))
    run_id = ""
    while not run_id:  # a machine that is too busy to say anything within the time is asked again
        try:
            async for response in runtime.ExecuteRun(request, metadata=gateway_word(CALLER), timeout=1):
                run_id = response.event.run_id
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED and not given_up(error):
                raise
    gate.set()
    assert await state_of(replica, run_id) is RunState.SUCCEEDED


async def test_a_run_outlives_a_caller_who_goes_away(
    replica: Replica, runtime: runs_pb2_grpc.RunServiceAsyncStub
) -> None:
    gate = replica.counting.hold(2)
    request = runs_pb2.ExecuteRunRequest(create=asked(3))
    events = runtime.ExecuteRun(request, metadata=gateway_word(CALLER), timeout=60)
    first: Any = await events.read()
    await replica.counting.reached.wait()
    events.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await events.code()
    gate.set()
    assert await state_of(replica, first.event.run_id) is RunState.SUCCEEDED


async def test_a_run_sees_no_variable_of_whoever_created_it(start_replica: StartReplica) -> None:
    counting = Attentive()
    replica = await start_replica(counting)
    deadline.set_remaining(0)
    _of_the_caller.set("mine")
    token = context.attach(baggage.set_baggage("of.the.caller", "mine"))
    try:
        run, _ = await replica.engine.create(new_run())
    finally:
        context.detach(token)
        deadline.set_remaining(None)
        _of_the_caller.set("")
    assert (await ended(replica, run)).state is RunState.SUCCEEDED
    assert counting.seen == [(None, "", None)] * 3
