"""Which failures of the runtime are worth another attempt."""

from types import SimpleNamespace

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from services.gateway import recovery
from services.gateway.errors import RuntimeUnavailable
from services.gateway.recovery import ATTEMPT_S, Recovery, RecoveryPolicy, was_cut
from services.kit.errors import SignalboxError, to_status


class Draining(SignalboxError):
    """A replica that is about to stop."""

    reason = "DRAINING"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class Broken(SignalboxError):
    """A replica that is unavailable for good."""

    reason = "BROKEN"
    code = grpc.StatusCode.UNAVAILABLE


class Busy(SignalboxError):
    """A refusal that another replica shares."""

    reason = "BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class Cancelled(SignalboxError):
    """A refusal with a code that cut connections have too."""

    reason = "RUN_CANCELLED"
    code = grpc.StatusCode.CANCELLED


def from_transport(code: grpc.StatusCode, details: str = "") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def from_servicer(error: SignalboxError) -> grpc.aio.AioRpcError:
    status = rpc_status.to_status(to_status(error))
    return grpc.aio.AioRpcError(
        status.code, grpc.aio.Metadata(), grpc.aio.Metadata(*status.trailing_metadata), status.details
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (from_transport(grpc.StatusCode.UNAVAILABLE, "Socket closed"), True),
        (from_transport(grpc.StatusCode.CANCELLED, "CANCELLED"), True),
        (from_transport(grpc.StatusCode.UNKNOWN, "Stream removed"), True),
        (from_transport(grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2"), True),
        (from_transport(grpc.StatusCode.INTERNAL, "Exception deserializing response!"), False),
        (from_transport(grpc.StatusCode.DEADLINE_EXCEEDED), False),
        (from_transport(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"), False),
        (from_transport(grpc.StatusCode.UNIMPLEMENTED), False),
        (from_servicer(Draining("going away")), True),
        (from_servicer(Broken("no database")), False),
        (from_servicer(Busy("later")), False),
        (from_servicer(Cancelled("by its caller")), False),
    ],
)
def test_only_what_another_attempt_can_mend_is_tried_again(error: grpc.aio.AioRpcError, expected: bool) -> None:
    assert was_cut(error) is expected


async def test_pauses_grow_and_end_until_the_call_gets_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [1000.0], list[float]()

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        now[0] += pause_s

    async def fail_for_ever() -> None:
        while True:
            await call.pause(from_transport(grpc.StatusCode.UNAVAILABLE), "7")

    monkeypatch.setattr(recovery, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(recovery, "asyncio", SimpleNamespace(sleep=sleep))
    call = Recovery(RecoveryPolicy(recovery_s=10.0))
    for _ in range(2):
        pauses.clear()
        with pytest.raises(RuntimeUnavailable, match="connection to run 7"):
            await fail_for_ever()
        # The first comes at once, as another replica is likely to be there.
        assert pauses[0] == 0.0
        assert 0.0 < pauses[1] < pauses[-1] <= sum(pauses) <= 10.0
        now[0] += 60
        call.progressed()


async def test_the_reason_is_told_while_there_is_time_to_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    left, called = [1.0], list[float]()

    async def sleep(pause_s: float) -> None:
        left[0] -= pause_s

    async def fail_until_it_is_told() -> None:
        while True:
            called.append(left[0])
            await call.pause(from_servicer(Draining("going away")))

    monkeypatch.setattr(recovery, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(recovery, "deadline", SimpleNamespace(remaining=lambda: left[0]))
    call = Recovery(RecoveryPolicy(recovery_s=60.0))
    with pytest.raises(grpc.aio.AioRpcError, match="going away"):
        await fail_until_it_is_told()
    assert len(called) > 2
    assert min(called) >= ATTEMPT_S


def test_details_of_the_fixture_are_what_a_servicer_sends() -> None:
    status = rpc_status.from_call(from_servicer(Draining("going away")))
    assert status is not None
    assert status.details[0].Is(error_details_pb2.ErrorInfo.DESCRIPTOR)
