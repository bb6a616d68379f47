"""A run as the engine knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from services.kit.identity import Caller
from services.runtime.routing.state import Budget, Spend


class RunState(StrEnum):
    """Where a run is in its life."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    AWAITING_INPUT = "AWAITING_INPUT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    NEEDS_REVIEW = "NEEDS_REVIEW"

    @property
    def ended(self) -> bool:
        """True when nothing more can happen to the run."""
        return self in ENDED


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.NEEDS_REVIEW})


class ActiveRunPolicy(StrEnum):
    """What to do with a new run when its thread has an active one."""

    REFUSE = "refuse"
    QUEUE = "queue"
    CANCEL_ACTIVE = "cancel_active"


@dataclass(frozen=True)
class InputRequest:
    """A question that a run asks a person."""

    input_request_id: str
    question: str
    options: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True)
class NewRun:
    """What it takes to create a run."""

    agent: str
    graph_version: str
    caller: Caller
    input: bytes
    budget: Budget
    correlation_id: str
    thread_id: str | None = None
    request_id: str | None = None
    active_run_policy: ActiveRunPolicy = ActiveRunPolicy.REFUSE
    traceparent: str = ""


@dataclass(frozen=True)
class RunRecord:
    """A row of the table `runs`. Input and output are serialized protos."""

    run_id: str
    agent: str
    graph_version: str
    caller: Caller
    thread_id: str | None
    correlation_id: str
    state: RunState
    input: bytes
    output: bytes | None
    stop_reason: str
    error: str
    input_request: InputRequest | None
    answer: str | None
    budget: Budget
    spend: Spend
    epoch: int
    idle_claims: int
    event_count: int
    traceparent: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Reads a row."""
        asked = row["input_request"]
        same = ("agent", "graph_version", "thread_id", "correlation_id", "output", "stop_reason", "error", "answer")
        also = ("budget", "epoch", "idle_claims", "event_count", "traceparent", "input")
        times = ("created_at", "started_at", "ended_at")
        return cls(
            run_id=str(row["run_id"]),
            caller=Caller(row["subject"], frozenset(row["roles"])),
            state=RunState(row["state"]),
            input_request=_input_request(asked) if asked else None,
            spend=Spend(
                model_calls=row["model_calls"],
                tool_calls=row["tool_calls"],
                input_tokens=row["input_tokens"],
                output_tokens=row["output_tokens"],
                wall_time_s=row["wall_time_s"],
            ),
            **{name: row[name] for name in (*same, *also, *times)},
        )


def _input_request(asked: Mapping[str, Any]) -> InputRequest:
    return InputRequest(
        asked["input_request_id"],
        asked["question"],
        tuple(asked["options"]),
        datetime.fromisoformat(asked["expires_at"]),
    )


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    state: RunState
    output: bytes | None = None
    stop_reason: str = ""
    error: str = ""


@dataclass(frozen=True)
class Orphans:
    """Runs without a live owner: how many there were, and which of them have none now: they go on, or are cancelled."""

    found: int
    freed: list[str]
