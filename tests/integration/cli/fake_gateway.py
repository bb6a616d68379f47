"""A gateway of the few methods that a test gives it; whatever else it is asked, it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

Context = grpc.aio.ServicerContext[Any, Any]


class FakeGateway(grpc.GenericRpcHandler):
    """Answers by method name, or refuses with a status; `asked` are the methods that were called, in order, and
    `streams` those that answer more than once, and `tokens` whose calls they were."""

    def __init__(self, answers: Mapping[str, Message | grpc.StatusCode] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.requests: list[bytes] = []
        self.tokens: list[str] = []
        self.streams = {"WatchRun", "ExecuteRun"}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        name = handler_call_details.method.rpartition("/")[2]

        async def answer(request: bytes, context: Context) -> bytes:
            self._note(name, request, context)
            return (await self._answer(name, context)).SerializeToString()

        async def stream(request: bytes, context: Context) -> AsyncIterator[bytes]:
            self._note(name, request, context)
            yield (await self._answer(name, context)).SerializeToString()

        if name in self.streams:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(answer)

    def _note(self, name: str, request: bytes, context: Context) -> None:
        self.tokens.append(str(dict(context.invocation_metadata() or ())["authorization"]).removeprefix("Bearer "))
        self.asked.append(name)
        self.requests.append(request)

    async def _answer(self, name: str, context: Context) -> Message:
        if name not in self.answers:
            await asyncio.Event().wait()
        answer = self.answers[name]
        if isinstance(answer, Message):
            return answer
        await context.abort(answer, "refused")
        raise AssertionError("abort returned")


@asynccontextmanager
async def serving(gateway: FakeGateway) -> AsyncIterator[str]:
    """Serves it on a free port; yields the address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((gateway,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
