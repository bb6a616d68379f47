"""What stands between the runtime and the graph executor, and makes trouble on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from signalbox.v1 import tools_pb2, tools_pb2_grpc

WRITING = ("add_node", "add_edge", "update_props", "delete_node", "delete_edge", "undo_change")
Context = grpc.aio.ServicerContext[Any, Any]
# Given the call, and what asks the real executor; returns what the runtime is to get.
Fault = Callable[
    [tools_pb2.CallToolRequest, Callable[[], Awaitable[tools_pb2.CallToolResponse]], Context],
    Awaitable[tools_pb2.CallToolResponse],
]


@dataclass
class FaultyExecutor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Passes every call on; the calls of tools that write meet with the faults, one each, in order.

    While the graph is `away`, tools that read say so, and `looks` is which of them were called.
    """

    stack: AsyncExitStack
    stub: Any = None
    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    away: bool = False
    looks: list[str] = field(default_factory=list)
    address: str = ""

    async def stand_before(self, address: str) -> None:
        """Passes calls on to the executor at an address from now on."""
        channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(address))
        self.stub = tools_pb2_grpc.ToolExecutorServiceStub(channel)

    async def ListTools(self, request: Any, context: Context) -> Any:  # noqa: N802 - the proto's name
        """Passes it on."""
        try:
            return await self.stub.ListTools(request, metadata=_passed(context))
        except grpc.aio.AioRpcError as error:
            return await _refused(error, context)

    async def LookUpCall(self, request: Any, context: Context) -> Any:  # noqa: N802 - the proto's name
        """Passes it on."""
        try:
            return await self.stub.LookUpCall(request, metadata=_passed(context))
        except grpc.aio.AioRpcError as error:
            return await _refused(error, context)

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: Context) -> Any:  # noqa: N802
        """Passes it on, or makes trouble."""

        async def ask() -> tools_pb2.CallToolResponse:
            answer: tools_pb2.CallToolResponse = await self.stub.CallTool(request, metadata=_passed(context))
            return answer

        writes = request.tool in WRITING
        if writes:
            self.calls.append((request.tool, request.idempotency_key.tool_call_id))
        elif self.away:
            self.looks.append(request.tool)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the graph database does not answer")
        try:
            if writes and self.faults:
                return await self.faults.pop(0)(request, ask, context)
            return await ask()
        except grpc.aio.AioRpcError as error:
            return await _refused(error, context)


async def passed(_request: Any, ask: Callable[[], Awaitable[Any]], _context: Context) -> Any:
    """No trouble: the call is passed on."""
    return await ask()


async def lost(_request: Any, ask: Callable[[], Awaitable[Any]], context: Context) -> Any:
    """The effect takes place, and its answer is lost."""
    await ask()
    await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")


async def broken(_request: Any, ask: Callable[[], Awaitable[Any]], context: Context) -> Any:
    """The effect takes place, and then the executor breaks down in a way that it did not foresee."""
    await ask()
    status = status_pb2.Status(code=code_pb2.INTERNAL, message="something unforeseen")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="INTERNAL", domain="signalbox", metadata={"a": "b"}))
    await context.abort_with_status(rpc_status.to_status(status))


def refused(reason: str, message: str, *, retryable: bool) -> Fault:
    """The executor says no, and nothing takes place."""

    async def fault(_request: Any, _ask: Any, _context: Context) -> tools_pb2.CallToolResponse:
        return tools_pb2.CallToolResponse(
            error=tools_pb2.ToolError(reason=reason, message=message, retryable=retryable)
        )

    return fault


def _passed(context: Context) -> Any:
    return [(key, value) for key, value in context.invocation_metadata() or () if key == "authorization"]


async def _refused(error: grpc.aio.AioRpcError, context: Context) -> Any:
    details = tuple(each for each in error.trailing_metadata() or () if each[0] == "grpc-status-details-bin")
    await context.abort(error.code(), error.details() or "", details)


class Held:
    """A fault that stops the call before or after its effect, says so, and never answers.

    Once released, it breaks the connection of whoever still waits.
    """

    def __init__(self, *, after_effect: bool) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()
        self._after_effect = after_effect

    def release(self) -> None:
        """Lets go of the call, without its answer."""
        self._released.set()

    async def __call__(self, _request: Any, ask: Callable[[], Awaitable[Any]], context: Context) -> Any:
        """Holds a call until its caller is gone, or it is released."""
        if self._after_effect:
            await ask()
        self.reached.set()
        await self._released.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")


@asynccontextmanager
async def standing_before(
    address: str = "", *, kind: type[FaultyExecutor] = FaultyExecutor
) -> AsyncIterator[FaultyExecutor]:
    """Stands before the executor at an address; without one, `stand_before` names it later."""
    server = grpc.aio.server()
    async with AsyncExitStack() as stack:
        faulty = kind(stack)
        if address:
            await faulty.stand_before(address)
        tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server(faulty, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        faulty.address = f"127.0.0.1:{port}"
        try:
            yield faulty
        finally:
            await server.stop(None)
