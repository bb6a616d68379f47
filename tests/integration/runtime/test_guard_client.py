"""What the runtime makes of the guard's answers: a verdict, or which kind of none; and what it notes of the calls."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_status import rpc_status
from signalbox.v1 import caller_pb2, guard_pb2, guard_pb2_grpc

from services.guard.errors import GuardBroken, GuardUnavailable
from services.kit.errors import SignalboxError, to_status
from services.kit.identity.caller import Caller, TokenExpired
from services.runtime.calls.guard_client import GuardClient
from services.runtime.errors import DependencyAway, GuardFailed
from services.runtime.routing.calls import Allowance, allowing, collecting
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import NOTHING_SPENT
from services.runtime.routing.waiting import wait_for

RUN = RunContext("r", "c", Caller("27"), 1, lambda _: "token")
ALLOW, BLOCK = guard_pb2.SCREEN_VERDICT_ALLOW, guard_pb2.SCREEN_VERDICT_BLOCK
COST = {"model": "small", "input_tokens": "40", "output_tokens": "3", "model_elapsed_ms": "12.500"}


class _Guard(guard_pb2_grpc.GuardServiceServicer):
    def __init__(self, answer: guard_pb2.ScreenResponse | SignalboxError | grpc.StatusCode) -> None:
        self._answer = answer
        self.asked: list[guard_pb2.ScreenRequest] = []

    async def Screen(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Answers what it was told to."""
        self.asked.append(request)
        if isinstance(self._answer, SignalboxError):
            await context.abort_with_status(rpc_status.to_status(to_status(self._answer)))
        if isinstance(self._answer, grpc.StatusCode):
            await context.abort(self._answer, "so it is")
        return self._answer


@asynccontextmanager
async def guard(answer: guard_pb2.ScreenResponse | SignalboxError | grpc.StatusCode) -> AsyncIterator[GuardClient]:
    server = grpc.aio.server()
    guard_pb2_grpc.add_GuardServiceServicer_to_server(_Guard(answer), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield GuardClient(channel, timeout_s=60)
    finally:
        await server.stop(None)


@pytest.mark.parametrize(("verdict", "reason"), [(ALLOW, "allowed"), (BLOCK, "model_blocked")])
async def test_the_guards_model_call_is_noted_as_the_guard_tells_of_it(
    verdict: guard_pb2.ScreenVerdict, reason: str
) -> None:
    usage = caller_pb2.TokenUsage(input_tokens=7, output_tokens=2)
    answer = guard_pb2.ScreenResponse(
        verdict=verdict, reason=reason, model="small", model_elapsed_ms=1234.5678, token_usage=usage, prompts="its",
        cached_tokens=5,
    )  # fmt: skip
    with collecting() as calls:
        async with guard(answer) as client:
            screening = await client.screen(RUN, "Count devices")
    assert screening.allowed == (verdict == ALLOW)
    asked, model = calls
    assert (asked["kind"], asked["name"], asked["outcome"]) == ("guard", "screen", reason)
    assert 0 < model.pop("ended_at") <= time.time()
    assert model == {
        "kind": "model", "name": "small", "service": "guard", "outcome": "ok", "elapsed_ms": 1234.568,
        "input_tokens": 7, "output_tokens": 2, "cached_tokens": 5, "offline_rules": False, "prompts": "its",
    }  # fmt: skip


# More failures than open a breaker.
MANY = 20


async def test_without_a_model_no_call_of_one_is_noted() -> None:
    with collecting() as calls:
        async with guard(guard_pb2.ScreenResponse(verdict=BLOCK, reason="other_user")) as client:
            await client.screen(RUN, "Show the devices of user 31")
    assert [call["kind"] for call in calls] == ["guard"]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (GuardUnavailable("no", metadata={"cause": "timeout", **COST}), "timeout"),
        (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"),
        (grpc.StatusCode.INTERNAL, "INTERNAL"),  # of gRPC itself: a connection that was cut
        (guard_pb2.ScreenResponse(verdict=BLOCK, reason="guard_unavailable"), "guard_unavailable"),  # the last release
    ],
)
async def test_what_a_wait_can_mend(
    answer: guard_pb2.ScreenResponse | SignalboxError | grpc.StatusCode, cause: str
) -> None:
    async with guard(answer) as client:
        with pytest.raises(DependencyAway) as caught:
            await client.screen(RUN, "Count devices")
    assert (caught.value.dependency, caught.value.cause, caught.value.retryable) == ("guard", cause, True)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("waited_for", ["UNAVAILABLE", ""])
async def test_a_call_that_the_runs_end_cuts_short_does_not_hide_what_was_waited_for(waited_for: str) -> None:
    run = RunContext("r", "c", Caller("27"), 1, lambda _: "token")
    if waited_for:
        wait = wait_for(DependencyAway("guard", waited_for), attempts=(), calls=(), elapsed_s=0, left_s=10)
        assert wait
        run.attempts.extend(wait.attempts)
    little = Allowance(NOTHING_SPENT, {"model_calls": 0, "tool_calls": 0, "tokens": 0, "wall_time_s": 5})
    with allowing(little):
        async with guard(grpc.StatusCode.DEADLINE_EXCEEDED) as client:
            with pytest.raises(DependencyAway) as caught:
                await client.screen(run, "Count devices")
    assert caught.value.cause == (waited_for or "DEADLINE_EXCEEDED")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (GuardBroken("no", metadata={"cause": "nonsense", **COST}), "nonsense"),
        (TokenExpired("no"), "TOKEN_EXPIRED"),
        (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED"),
        (guard_pb2.ScreenResponse(), "guard_unavailable"),
    ],
)
async def test_what_an_operator_must_mend_is_waited_for_and_holds_up_nobody_else(
    answer: guard_pb2.ScreenResponse | SignalboxError | grpc.StatusCode, cause: str
) -> None:
    async with guard(answer) as client:
        for _ in range(MANY):
            with pytest.raises(DependencyAway) as caught:
                await client.screen(RUN, "Count devices")
            assert (caught.value.dependency, caught.value.cause) == ("guard", cause)
            assert not caught.value.held_back


@pytest.mark.parametrize("cause", ["http_400", "http_401", "http_404", "error_403"])
async def test_what_the_models_endpoint_refuses_is_a_no_in_its_words(cause: str) -> None:
    async with guard(GuardBroken("no such key", metadata={"cause": cause, **COST})) as client:
        with pytest.raises(GuardFailed, match="no such key") as caught:
            await client.screen(RUN, "Count devices")
    assert caught.value.cause == cause


@pytest.mark.parametrize(
    ("error", "least_wait_s"),
    [
        (GuardUnavailable("no", metadata={"cause": "http_500", **COST, "model_calls": "2"}), 60),
        (GuardBroken("no", metadata={"cause": "nonsense", **COST, "model_calls": "1"}), 30),
        (GuardUnavailable("no", metadata={"cause": "connection", **COST, "model_calls": "2"}), 0),
        (grpc.StatusCode.UNAVAILABLE, 0),
    ],
)
async def test_waiting_for_a_verdict_costs_at_most_three_calls_of_the_model_a_minute(
    error: SignalboxError | grpc.StatusCode, least_wait_s: float
) -> None:
    async with guard(error) as client:
        with pytest.raises(DependencyAway) as caught:
            await client.screen(RUN, "Count devices")
    assert caught.value.least_wait_s == least_wait_s
    wait = wait_for(caught.value, attempts=[], calls=[], elapsed_s=0, left_s=100)
    assert wait is not None
    assert wait.delay_s >= least_wait_s
    if least_wait_s:
        assert wait_for(caught.value, attempts=[], calls=[], elapsed_s=0, left_s=least_wait_s - 1) is None


async def test_a_screening_without_a_verdict_is_charged_too() -> None:
    with collecting() as calls:
        async with guard(GuardBroken("no", metadata={"cause": "nonsense", **COST})) as client:
            with pytest.raises(DependencyAway):
                await client.screen(RUN, "Count devices")
    asked, model = calls
    assert (asked["kind"], asked["outcome"]) == ("guard", "GUARD_BROKEN")
    assert (model["kind"], model["name"], model["outcome"]) == ("model", "small", "nonsense")
    assert (model["input_tokens"], model["output_tokens"]) == (40, 3)
