"""Errors go over the wire and come back as they were."""

from __future__ import annotations

import base64
from urllib.parse import quote

import grpc
import pytest
from grpc_status import rpc_status
from hypothesis import given
from hypothesis import strategies as st

from services.kit.errors import FieldViolation, SignalboxError, error_detail, internal_status, status_of, to_status

# What gRPC lets a call's trailers be, less what else is in them.
SOFT_LIMIT = 8192 - 300


class Busy(SignalboxError):
    """A leaf that a retry can help."""

    reason = "BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


def received(error: SignalboxError) -> grpc.aio.AioRpcError:
    """The error as a client's call raises it."""
    status = rpc_status.to_status(to_status(error))
    trailing = grpc.aio.Metadata(*status.trailing_metadata)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), trailing, details=status.details)


@given(
    message=st.text(max_size=100),
    metadata=st.dictionaries(
        st.from_regex(r"\A[a-z_]{1,9}\Z").filter(lambda key: key != "retryable"), st.text(max_size=20), max_size=3
    ),
    retry_after_s=st.none() | st.floats(0, 1000).map(lambda seconds: round(seconds, 6)),
    violations=st.lists(
        st.builds(FieldViolation, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)), max_size=3
    ),
)
def test_every_part_comes_back(
    message: str, metadata: dict[str, str], retry_after_s: float | None, violations: list[FieldViolation]
) -> None:
    sent = Busy(message, metadata=metadata, retry_after_s=retry_after_s, violations=violations)
    detail = error_detail(received(sent))
    assert (detail.code, detail.reason, detail.message, detail.retryable) == (Busy.code, "BUSY", message, True)
    assert (
        detail.retry_after_s == pytest.approx(retry_after_s)
        if retry_after_s is not None
        else detail.retry_after_s is None
    )
    assert list(detail.violations) == violations
    assert metadata.items() <= detail.metadata.items()


def test_an_unforeseen_error_shows_a_trace_and_nothing_else() -> None:
    status = internal_status("ab" * 16)
    assert "ab" * 16 in status.message
    assert len(status.details) == 1


@given(text=st.text(min_size=1_000, max_size=20_000), count=st.integers(1, 400))
def test_what_is_too_long_for_a_call_is_cut(text: str, count: int) -> None:
    violations = [FieldViolation(f"field_{number}", text[:400]) for number in range(count)]
    sent = Busy(text, metadata={"name": text}, violations=violations)
    status = to_status(sent)
    assert len(base64.b64encode(status.SerializeToString())) + len(quote(status.message)) < SOFT_LIMIT
    detail = error_detail(received(sent))
    assert detail.reason == "BUSY"
    assert text.startswith(detail.message.removesuffix("…"))
    assert len(detail.message) > 300
    *named, last = detail.violations
    assert [one.field for one in named] == [one.field for one in violations[: len(named)]]
    assert len(named) + 1 == count or last.description == f"and {count - len(named)} more"


def test_a_status_that_is_another_codes_is_not_believed() -> None:
    """As when gRPC finds that what it was sent is too much."""
    sent = received(Busy("come back", retry_after_s=1.0))
    changed = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), sent.trailing_metadata(), details="cut off"
    )
    assert status_of(changed) is None
    detail = error_detail(changed)
    assert (detail.code, detail.reason, detail.message) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", "cut off")


@pytest.mark.parametrize(
    ("code", "retryable"),
    [(grpc.StatusCode.UNAVAILABLE, True), (grpc.StatusCode.ABORTED, True), (grpc.StatusCode.NOT_FOUND, False)],
)
def test_a_plain_grpc_error_goes_by_its_code(code: grpc.StatusCode, retryable: bool) -> None:
    plain = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="gone")
    detail = error_detail(plain)
    assert (detail.reason, detail.message, detail.retryable) == (code.name, "gone", retryable)
