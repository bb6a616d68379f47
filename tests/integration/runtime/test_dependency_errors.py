"""What a failed call means for the run: wait, give way, or fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from signalbox.v1 import table_pb2, tools_pb2, tools_pb2_grpc

from services.kit.errors import InvalidRequest, SignalboxError, internal_status, to_status
from services.kit.identity.caller import Caller, StaleEpoch
from services.runtime.agents.graph_editor.planning import preview
from services.runtime.agents.graph_editor.state import Operation
from services.runtime.calls.tool_client import ToolClient
from services.runtime.engine.records import RunState
from services.runtime.errors import ClaimLost, DependencyAway, ServiceFailed
from services.runtime.routing.run_context import NodeContext, RunContext
from services.sql_executor.errors import DatabaseBusy, DatabaseDown
from tests.fixtures.replica import Counting
from tests.integration.runtime.conftest import StartReplica, ended, new_run

CONTEXT = NodeContext(RunContext("r", "c", Caller("27"), 1, lambda _: "token"), "checkpoint")
TIMEOUT_S = 60.0
Fail = Callable[[grpc.aio.ServicerContext[Any, Any]], Any]


class Executor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Fails every call in one way, or answers with one output, or with nothing."""

    def __init__(self, fail: Fail, output: tools_pb2.ToolOutput | None) -> None:
        self._fail = fail
        self._output = output

    async def ListTools(  # noqa: N802 - the proto's name
        self, request: tools_pb2.ListToolsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tools_pb2.ListToolsResponse:
        del request
        await self._fail(context)
        raise AssertionError("it fails")

    async def CallTool(  # noqa: N802 - the proto's name
        self, request: tools_pb2.CallToolRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tools_pb2.CallToolResponse:
        del request
        await self._fail(context)
        return tools_pb2.CallToolResponse(output=self._output)

    async def LookUpCall(  # noqa: N802 - the proto's name
        self, request: tools_pb2.LookUpCallRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tools_pb2.LookUpCallResponse:
        del request
        await self._fail(context)
        return tools_pb2.LookUpCallResponse(result=tools_pb2.CallToolResponse(output=self._output))


@asynccontextmanager
async def client(
    fail: Fail, *, timeout_s: float = TIMEOUT_S, output: tools_pb2.ToolOutput | None = None
) -> AsyncIterator[ToolClient]:
    server = grpc.aio.server()
    tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server(Executor(fail, output), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield ToolClient(channel, service="sql_executor", audience="signalbox-sql-executor", timeout_s=timeout_s)
    await server.stop(None)


def plain(code: grpc.StatusCode, words: str = "words") -> Fail:
    return lambda context: context.abort(code, words)


def told(error: SignalboxError) -> Fail:
    return lambda context: context.abort_with_status(rpc_status.to_status(to_status(error)))


def hang(_context: Any) -> Any:
    return asyncio.Event().wait()


async def say_nothing(_context: Any) -> None:
    """Leaves it at that."""


def unforeseen(context: Any) -> Any:
    return context.abort_with_status(rpc_status.to_status(internal_status("0" * 32)))


Code = grpc.StatusCode
WAITED_FOR = [
    (plain(Code.UNAVAILABLE), "UNAVAILABLE"),
    (plain(Code.CANCELLED), "CANCELLED"),
    (plain(Code.ABORTED), "ABORTED"),
    (plain(Code.RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED"),
    (plain(Code.INTERNAL), "INTERNAL"),
    (plain(Code.UNKNOWN), "UNKNOWN"),
    (told(DatabaseDown("gone", retry_after_s=1)), "DATABASE_DOWN"),
    (told(DatabaseBusy("full")), "DATABASE_BUSY"),
]
NOT_WAITED_FOR = [
    (plain(Code.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 4)"), "RESOURCE_EXHAUSTED"),
    (plain(Code.UNAUTHENTICATED), "UNAUTHENTICATED"),
    (plain(Code.NOT_FOUND), "NOT_FOUND"),
    (told(InvalidRequest("nonsense")), "INVALID_REQUEST"),
    (unforeseen, "INTERNAL"),
]


@pytest.mark.parametrize(("fail", "cause"), WAITED_FOR, ids=[cause for _, cause in WAITED_FOR])
async def test_what_waiting_can_mend(fail: Fail, cause: str) -> None:
    async with client(fail) as tools:
        with pytest.raises(DependencyAway) as caught:
            await tools.call(CONTEXT, "ask", {}, "1")
    assert (caught.value.dependency, caught.value.cause) == ("sql_executor", cause)
    assert caught.value.retry_after_s == (1 if cause == "DATABASE_DOWN" else None)


async def test_no_answer_in_time_can_be_mended_by_waiting() -> None:
    async with client(hang, timeout_s=0.2) as tools:
        with pytest.raises(DependencyAway) as caught:
            await tools.call(CONTEXT, "ask", {}, "1")
    assert caught.value.cause == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize(("fail", "cause"), NOT_WAITED_FOR, ids=[cause for _, cause in NOT_WAITED_FOR])
async def test_what_it_can_not(fail: Fail, cause: str) -> None:
    async with client(fail) as tools:
        with pytest.raises(ServiceFailed) as caught:
            await tools.call(CONTEXT, "ask", {}, "1")
    assert caught.value.metadata == {"service": "sql_executor", "cause": cause}
    assert not caught.value.retryable


COLUMNS = [table_pb2.Column(name="a"), table_pb2.Column(name="b")]
UNREADABLE = [
    None,
    tools_pb2.ToolOutput(table=table_pb2.Table(columns=COLUMNS, rows=[table_pb2.Row(values=[table_pb2.Cell()])])),
    tools_pb2.ToolOutput(table=table_pb2.Table(rows=[table_pb2.Row(values=[table_pb2.Cell()])])),
]


@pytest.mark.parametrize("output", UNREADABLE, ids=["no outcome", "a short row", "no columns"])
@pytest.mark.parametrize(
    "ask", [lambda tools: tools.call(CONTEXT, "ask", {}, "1"), lambda tools: tools.look_up(CONTEXT, "1")]
)
async def test_an_answer_that_can_not_be_read(
    ask: Callable[[ToolClient], Awaitable[object]], output: tools_pb2.ToolOutput | None
) -> None:
    """It may have taken effect or not; it is not taken for one that did."""
    async with client(say_nothing, output=output) as tools:
        with pytest.raises(ServiceFailed, match="its answer can't be read"):
            await ask(tools)


@pytest.mark.parametrize("data", [{}, {"operations": "none"}, {"operations": []}, {"operations": ["create"]}])
async def test_a_preview_of_something_else_than_was_asked(data: dict[str, Any]) -> None:
    output = tools_pb2.ToolOutput()
    output.data.update(data)
    async with client(say_nothing, output=output) as tools:
        with pytest.raises(ServiceFailed, match="its answer can't be read"):
            await preview(tools, CONTEXT, [Operation(operation_id="1", tool="create_node", arguments={})])


async def test_a_stale_epoch_is_a_lost_claim() -> None:
    async with client(told(StaleEpoch("a later claim"))) as tools:
        with pytest.raises(ClaimLost):
            await tools.call(CONTEXT, "ask", {}, "1")


async def test_a_lost_claim_ends_no_run(start_replica: StartReplica) -> None:
    counting = Counting()
    lost: list[bool] = []

    async def lose() -> None:
        if not lost:
            lost.append(True)
            raise ClaimLost("a later claim")

    counting.failures[2] = lose
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)
    # Nobody had claimed it: whoever sweeps finds a run without an owner that knows of it.
    assert (done.state, done.epoch) == (RunState.SUCCEEDED, 2)
    assert [number for _, number in counting.counted] == [1, 2, 3]
