"""The calls a node makes: collected while it runs, charged to the run, shown under the decision that caused them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import grpc
from prometheus_client import Counter

from services.kit.errors import SignalboxError, error_detail
from services.kit.telemetry.names import METRIC_PREFIX
from services.runtime.errors import BudgetSpent, ModelNotAllowed
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.storable import presentable

CALLS_BEYOND_BUDGET = Counter(
    METRIC_PREFIX + "calls_beyond_budget_total",
    "Calls that were not made since their run's budget was spent, by kind of call and the limit that was reached.",
    ["kind", "limit"],
)
_acts: ContextVar[bool] = ContextVar("acts", default=False)
OK = "ok"
MODEL: Final = "model"
TOOL: Final = "tool"
# What the ledger shows in place of calls that were not made.
REFUSED: Final = "refused"
BUDGET_SPENT: Final = "budget_spent"
# Far beyond any model's, and small enough that a run's sums are numbers of 64 bits.
MOST_TOKENS = 10**12


class Allowance:
    """What a run's budget leaves to the node that runs, whatever that does at once; a limit of 0 is none.

    Where models' calls or tokens were spent before it began, a table has led to it all the same: it ends the run, and
    may ask for the words to do so.
    """

    def __init__(self, spend: Mapping[str, Any], budget: Mapping[str, Any]) -> None:
        tokens = spend["input_tokens"] + spend["output_tokens"]
        self._left = {
            MODEL: _left(budget["model_calls"], spend["model_calls"]) or math.inf,
            TOOL: _left(budget["tool_calls"], spend["tool_calls"]),
        }
        self._tokens_left = _left(budget["tokens"], tokens) or math.inf
        self._ends_at = time.monotonic() + _left(budget["wall_time_s"], spend["wall_time_s"])

    @property
    def left_s(self) -> float:
        """Seconds of wall time that are left; infinite where there is no limit."""
        return max(0.0, self._ends_at - time.monotonic())

    def spent(self, kind: str) -> str:
        """Returns the limit that forbids another call of this kind; an empty string for none."""
        if self._left[kind] <= 0:
            return f"{kind}_calls"
        if kind == MODEL and self._tokens_left <= 0:
            return "tokens"
        return "" if self.left_s else "wall_time_s"

    def begin(self, kind: str) -> None:
        """Counts a call that is about to be made."""
        if kind in self._left:
            self._left[kind] -= 1

    def paid(self, tokens: int) -> None:
        """Counts what a call has cost."""
        self._tokens_left -= tokens


def _left(limit: float, spent: float) -> float:
    return max(0, limit - spent) if limit > 0 else math.inf


_calls: ContextVar[list[CallRecord] | None] = ContextVar("calls", default=None)
_prompts: ContextVar[str] = ContextVar("prompts", default="")
_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowing(allowance: Allowance | None) -> Iterator[None]:
    """Holds the calls made inside the context, also those of tasks started in it, to what is allowed."""
    token = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(token)


def left_s() -> float:
    """Returns the seconds that the run's wall time leaves to the node that runs."""
    allowance = _allowance.get()
    return allowance.left_s if allowance else math.inf


def acting() -> bool:
    """Tells whether the node that runs has effects."""
    return _acts.get()


def refused_by_budget(kind: str, name: str) -> str:
    """Returns the limit of the run's budget that forbids a call, and counts that; an empty string where none does.

    Many such calls one after another are one line in the ledger.
    """
    allowance = _allowance.get()
    limit = allowance.spent(kind) if allowance else ""
    if limit:
        CALLS_BEYOND_BUDGET.labels(kind, limit).inc()
        before = _calls.get() or ()
        if not before or (before[-1]["kind"], before[-1]["name"]) != (REFUSED, name):
            none = CallRecord(
                kind=REFUSED, name=name, outcome=BUDGET_SPENT, elapsed_ms=0.0, input_tokens=0, output_tokens=0
            )
            note(none)
    return limit


@contextmanager
def collecting(*, acts: bool = False, prompts: str | None = None) -> Iterator[list[CallRecord]]:
    """Collects the calls made inside the context, also those of tasks started in it; of models with these prompts,
    or those of the context around it.

    In a node that acts, a call of a model raises ModelNotAllowed: repeated after a crash, the model might say something
    else, and both effects would happen.
    """
    calls: list[CallRecord] = []
    token, acting, worded = (
        _calls.set(calls),
        _acts.set(acts),
        _prompts.set(_prompts.get() if prompts is None else prompts),
    )
    try:
        yield calls
    finally:
        _calls.reset(token)
        _acts.reset(acting)
        _prompts.reset(worded)


def cleaned(call: CallRecord) -> CallRecord:
    """Returns a call with what the ledger can keep of words and numbers of others."""
    call["name"], call["outcome"] = presentable(call["name"]), presentable(call["outcome"])
    if "prompts" in call:
        call["prompts"] = presentable(call["prompts"])
    call["input_tokens"], call["output_tokens"] = (
        min(max(0, tokens), MOST_TOKENS) for tokens in (call["input_tokens"], call["output_tokens"])
    )
    if not math.isfinite(call["elapsed_ms"]):
        call["elapsed_ms"] = 0.0
    return call


def note(call: CallRecord) -> None:
    """Adds a call to those of the node that runs."""
    call = cleaned(call)
    # A model that a service asked was asked with that service's prompts.
    if call["kind"] == call.get("service") == MODEL and (prompts := _prompts.get()):
        call["prompts"] = prompts
    calls = _calls.get()
    if calls is not None:
        calls.append(call)


@contextmanager
def noting(kind: str, name: str, *, service: str = "") -> Iterator[CallRecord]:
    """Notes the call made inside the context; its caller fills in tokens and the outcome, else an exception does.

    `service` is where it goes, where its kind does not say so. Raises ModelNotAllowed, and BudgetSpent for a call of a
    model that the run's budget does not allow.
    """
    if kind == MODEL and _acts.get():
        raise ModelNotAllowed(f"a node that acts asked the model {name!r}: let the node before it plan")
    if kind == MODEL and (limit := refused_by_budget(MODEL, name)):
        raise BudgetSpent(limit)
    allowance = _allowance.get()
    if allowance:
        allowance.begin(kind)
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
        if allowance:
            allowance.paid(call["input_tokens"] + call["output_tokens"])


def _reason_of(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return error_detail(error).reason
    return error.reason if isinstance(error, SignalboxError) else type(error).__name__
