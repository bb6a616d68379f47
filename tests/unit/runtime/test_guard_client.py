"""What the runtime notes of a screening: the call of the guard, and the guard's own call of its model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from signalbox.v1 import caller_pb2, guard_pb2, guard_pb2_grpc

from services.kit.identity import Caller
from services.runtime.guard_client import GuardClient
from services.runtime.routing.calls import collecting
from services.runtime.run_context import RunContext

RUN = RunContext("r", "c", Caller("27"), 1, lambda: "token")
ALLOW, BLOCK = guard_pb2.SCREEN_VERDICT_ALLOW, guard_pb2.SCREEN_VERDICT_BLOCK


class _Guard(guard_pb2_grpc.GuardServiceServicer):
    def __init__(self, answer: guard_pb2.ScreenResponse) -> None:
        self._answer = answer

    async def Screen(self, _request, _context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Answers what it was told to."""
        return self._answer


@asynccontextmanager
async def guard(answer: guard_pb2.ScreenResponse) -> AsyncIterator[GuardClient]:
    server = grpc.aio.server()
    guard_pb2_grpc.add_GuardServiceServicer_to_server(_Guard(answer), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield GuardClient(channel, timeout_s=60)
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("verdict", "reason", "outcome"),
    [
        (ALLOW, "allowed", "ok"),
        (BLOCK, "model_blocked", "ok"),
        (BLOCK, "guard_unavailable", "guard_unavailable"),
    ],
)
async def test_the_guards_model_call_is_noted_as_the_guard_tells_of_it(
    verdict: guard_pb2.ScreenVerdict, reason: str, outcome: str
) -> None:
    usage = caller_pb2.TokenUsage(input_tokens=7, output_tokens=2)
    answer = guard_pb2.ScreenResponse(
        verdict=verdict, reason=reason, model="small", model_elapsed_ms=1234.5678, token_usage=usage
    )
    with collecting() as calls:
        async with guard(answer) as client:
            screening = await client.screen(RUN, "Count devices")
    assert screening.allowed == (verdict == ALLOW)
    asked, model = calls
    assert (asked["kind"], asked["name"], asked["outcome"]) == ("guard", "screen", reason)
    assert model == {
        "kind": "model", "name": "small", "outcome": outcome, "elapsed_ms": 1234.568,
        "input_tokens": 7, "output_tokens": 2,
    }  # fmt: skip


async def test_without_a_model_no_call_of_one_is_noted() -> None:
    with collecting() as calls:
        async with guard(guard_pb2.ScreenResponse(verdict=BLOCK, reason="other_user")) as client:
            await client.screen(RUN, "Show the devices of user 31")
    assert [call["kind"] for call in calls] == ["guard"]
