"""The calls a node makes: collected while it runs, charged to the run, shown under the decision that caused them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite

import grpc

from services.kit.errors import SignalboxError, error_detail
from services.runtime.errors import ModelNotAllowed
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.storable import presentable

_calls: ContextVar[list[CallRecord] | None] = ContextVar("calls", default=None)
_acts: ContextVar[bool] = ContextVar("acts", default=False)
OK = "ok"
MODEL = "model"
# Far beyond any model's, and small enough that a run's sums are numbers of 64 bits.
MOST_TOKENS = 10**12


@contextmanager
def collecting(*, acts: bool = False) -> Iterator[list[CallRecord]]:
    """Collects the calls made inside the context, also those of tasks started in it.

    In a node that acts, a call of a model raises ModelNotAllowed: repeated after a crash, the model might say something
    else, and both effects would happen.
    """
    calls: list[CallRecord] = []
    token, acting = _calls.set(calls), _acts.set(acts)
    try:
        yield calls
    finally:
        _calls.reset(token)
        _acts.reset(acting)


def note(call: CallRecord) -> None:
    """Adds a call to those of the node that runs, with what the ledger can keep of words and numbers of others."""
    call["name"], call["outcome"] = presentable(call["name"]), presentable(call["outcome"])
    call["input_tokens"], call["output_tokens"] = (
        min(max(0, tokens), MOST_TOKENS) for tokens in (call["input_tokens"], call["output_tokens"])
    )
    if not isfinite(call["elapsed_ms"]):
        call["elapsed_ms"] = 0.0
    calls = _calls.get()
    if calls is not None:
        calls.append(call)


@contextmanager
def noting(kind: str, name: str, *, service: str = "") -> Iterator[CallRecord]:
    """Notes the call made inside the context; its caller fills in tokens and the outcome, else an exception does.

    `service` is where it goes, where its kind does not say so. Raises ModelNotAllowed.
    """
    if kind == MODEL and _acts.get():
        raise ModelNotAllowed(f"a node that acts asked the model {name!r}: let the node before it plan")
    start = time.perf_counter()
    call = CallRecord(kind=kind, name=name, outcome=OK, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
    call["service"] = service or kind
    try:
        yield call
    except BaseException as error:
        if call["outcome"] == OK:
            call["outcome"] = _reason_of(error)
        raise
    finally:
        call["elapsed_ms"] = round((time.perf_counter() - start) * 1000, 3)
        call["ended_at"] = round(time.time(), 6)
        note(call)


def _reason_of(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return error_detail(error).reason
    return error.reason if isinstance(error, SignalboxError) else type(error).__name__
