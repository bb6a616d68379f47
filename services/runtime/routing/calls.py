"""The calls a node makes: collected while it runs, charged to the run, shown under the decision that caused them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import grpc

from services.kit.errors import SignalboxError, error_detail
from services.runtime.routing.recorder import CallRecord

_calls: ContextVar[list[CallRecord] | None] = ContextVar("calls", default=None)
OK = "ok"


@contextmanager
def collecting() -> Iterator[list[CallRecord]]:
    """Collects the calls made inside the context, also those of tasks started in it."""
    calls: list[CallRecord] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def note(call: CallRecord) -> None:
    """Adds a call to those of the node that runs."""
    calls = _calls.get()
    if calls is not None:
        calls.append(call)


@contextmanager
def noting(kind: str, name: str) -> Iterator[CallRecord]:
    """Notes the call made inside the context; its caller fills in tokens and the outcome, else an exception does."""
    start = time.perf_counter()
    call = CallRecord(kind=kind, name=name, outcome=OK, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
    try:
        yield call
    except BaseException as error:
        if call["outcome"] == OK:
            call["outcome"] = _reason_of(error)
        raise
    finally:
        call["elapsed_ms"] = round((time.perf_counter() - start) * 1000, 3)
        note(call)


def _reason_of(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return error_detail(error).reason
    return error.reason if isinstance(error, SignalboxError) else type(error).__name__
