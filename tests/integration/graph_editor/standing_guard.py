"""What stands before the guard: it passes screenings on, or makes of it one of the release that knew only questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc_status import rpc_status
from signalbox.v1 import guard_pb2, guard_pb2_grpc


@dataclass
class StandingGuard(guard_pb2_grpc.GuardServiceServicer):
    """Keeps what it is asked; with `knows_kinds` unset, neither guard nor runtime hears of a kind.

    With a barrier, screenings wait until there are so many.
    """

    stub: Any
    knows_kinds: bool = True
    barrier: asyncio.Barrier | None = None
    asked: list[guard_pb2.ScreenRequest] = field(default_factory=list)

    async def Screen(self, request: Any, context: Any) -> Any:  # noqa: N802 - the proto's name
        """Passes it on."""
        self.asked.append(request)
        if self.barrier:
            await self.barrier.wait()
        # As the guard does: from here on a channel repeats nothing.
        await context.send_initial_metadata(())
        passed = guard_pb2.ScreenRequest()
        passed.CopyFrom(request)
        if not self.knows_kinds:
            passed.ClearField("kind")
        try:
            answer = await self.stub.Screen(passed, metadata=context.invocation_metadata(), timeout=60)
        except grpc.aio.AioRpcError as error:
            status = rpc_status.from_call(error)
            if status is None:
                await context.abort(error.code(), error.details())
            await context.abort_with_status(rpc_status.to_status(status))
        if not self.knows_kinds:
            answer.ClearField("kind")
        return answer


@asynccontextmanager
async def standing_before_guard(address: str) -> AsyncIterator[tuple[StandingGuard, str]]:
    """Yields what stands before a guard, and where."""
    server = grpc.aio.server()
    async with grpc.aio.insecure_channel(address) as channel:
        standing = StandingGuard(guard_pb2_grpc.GuardServiceStub(channel))
        guard_pb2_grpc.add_GuardServiceServicer_to_server(standing, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield standing, f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
