"""What the runtime refuses reaches the caller as the runtime said it."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2

from services.kit.errors import FieldViolation, SignalboxError, error_detail
from tests.integration.gateway.conftest import Platform, StartPlatform, question

UUID = "0199a0c0-0000-7000-8000-000000000000"


class RunNotFound(SignalboxError):
    """A refusal with everything a refusal can have."""

    reason = "RUN_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class ThreadBusy(SignalboxError):
    """A refusal that names another run."""

    reason = "THREAD_BUSY"
    code = grpc.StatusCode.FAILED_PRECONDITION


class Overloaded(SignalboxError):
    """A refusal that a retry can help."""

    reason = "OVERLOADED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


FAILURES = [
    RunNotFound("there is no run like that", violations=[FieldViolation("run_id", "unknown", "unknown_run")]),
    ThreadBusy("the thread has an active run", metadata={"active_run_id": UUID}),
    Overloaded("come back later", retry_after_s=2.5),
]
CALLS: dict[str, Callable[[Platform], Any]] = {
    "CreateRun": lambda p: p.stub.CreateRun(question(), metadata=p.auth()),
    "ExecuteRun": lambda p: p.stub.ExecuteRun(runs_pb2.ExecuteRunRequest(create=question()), metadata=p.auth()).read(),
    "WatchRun": lambda p: p.stub.WatchRun(runs_pb2.WatchRunRequest(run_id=UUID), metadata=p.auth()).read(),
    "GetRun": lambda p: p.stub.GetRun(runs_pb2.GetRunRequest(run_id=UUID), metadata=p.auth()),
    "ListRuns": lambda p: p.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=p.auth()),
    "CancelRun": lambda p: p.stub.CancelRun(runs_pb2.CancelRunRequest(run_id=UUID), metadata=p.auth()),
    "ResumeRun": lambda p: p.stub.ResumeRun(
        runs_pb2.ResumeRunRequest(run_id=UUID, input_request_id="q", answer="yes"), metadata=p.auth()
    ),
    "ListDecisions": lambda p: p.stub.ListDecisions(runs_pb2.ListDecisionsRequest(run_id=UUID), metadata=p.auth()),
    "CountDecisions": lambda p: p.stub.CountDecisions(
        runs_pb2.CountDecisionsRequest(agent="data_chat"), metadata=p.auth()
    ),
    "CountRuns": lambda p: p.stub.CountRuns(
        runs_pb2.CountRunsRequest(since_time=Timestamp(seconds=1), interval_minutes=60), metadata=p.auth()
    ),
    "ExplainRun": lambda p: p.stub.ExplainRun(runs_pb2.ExplainRunRequest(run_id=UUID), metadata=p.auth()),
}


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.reason)
@pytest.mark.parametrize("method", CALLS)
async def test_an_error_of_the_runtime_arrives_whole(platform: Platform, method: str, failure: SignalboxError) -> None:
    for replica in platform.replicas:
        replica.failure = failure
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await CALLS[method](platform)
    detail = error_detail(caught.value)
    assert detail.code is failure.code
    assert detail.reason == failure.reason
    assert detail.message == failure.message
    assert detail.retryable is failure.retryable
    assert detail.retry_after_s == failure.retry_after_s
    assert detail.violations == failure.violations
    assert failure.metadata.items() <= detail.metadata.items()
    assert [called for called, _, _ in platform.calls] == [method]  # and it was not tried again


@pytest.mark.parametrize(
    "method",
    ["GetRun", "ListRuns", "CancelRun", "ResumeRun", "ListDecisions", "CountDecisions", "CountRuns", "ExplainRun"],
)
async def test_a_runtime_that_is_gone_is_said_to_be_without_its_addresses(platform: Platform, method: str) -> None:
    for replica in platform.replicas:
        await replica.cut()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await CALLS[method](platform)
    detail = error_detail(caught.value)
    assert detail.code is grpc.StatusCode.UNAVAILABLE
    assert detail.reason == "RUNTIME_UNAVAILABLE"
    assert detail.retryable
    assert "127.0.0.1" not in detail.message


async def test_a_read_finds_the_replica_that_is_left(platform: Platform) -> None:
    run = await platform.store.create(question(request_id="r"))
    await platform.replicas[0].cut()
    for _ in range(4):
        response = await platform.stub.GetRun(runs_pb2.GetRunRequest(run_id=run.run_id), metadata=platform.auth())
        assert response.run.run_id == run.run_id


class Full(SignalboxError):
    """A refusal that says why, and that later may be otherwise."""

    reason = "DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


@pytest.mark.parametrize("method", ["CreateRun", "WatchRun"])
@pytest.mark.parametrize(("recovery_s", "timeout_s"), [(0.5, None), (60.0, 3.0)], ids=["tries", "deadline"])
async def test_who_is_given_up_on_hears_the_reason_that_the_runtime_gave(
    start_platform: StartPlatform, method: str, recovery_s: float, timeout_s: float | None
) -> None:
    platform = await start_platform(recovery_s=recovery_s)
    for replica in platform.replicas:
        replica.failure = Full("the platform database has no room left")
    watch = runs_pb2.WatchRunRequest(run_id=UUID)
    call: Any = (
        platform.stub.CreateRun(question(), metadata=platform.auth(), timeout=timeout_s)
        if method == "CreateRun"
        else platform.stub.WatchRun(watch, metadata=platform.auth(), timeout=timeout_s).read()
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    detail = error_detail(caught.value)
    assert (detail.reason, detail.message) == ("DATABASE_AWAY", "the platform database has no room left")
    assert len(platform.calls) > 1


async def test_a_request_of_a_newer_release_reaches_the_replica_that_knows_it(platform: Platform) -> None:
    request = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput.FromString(b"\xba\x3e\x02\x0a\x00"))
    platform.replicas[0].failure = Full("this replica's release knows no such agent")
    for _ in range(4):
        response = await platform.stub.CreateRun(request, metadata=platform.auth())
        assert response.run.run_id
    [(_, passed, _), *_] = platform.replicas[1].calls
    assert passed.input == request.input
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await platform.stub.CreateRun(runs_pb2.CreateRunRequest(input=runs_pb2.RunInput()), metadata=platform.auth())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
