"""What the state of every agent carries."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.channels import Topic

from services.runtime.routing.recorder import CallRecord, StepRecord

Status = Literal["in_progress", "completed", "needs_review", "failed", "cancelled"]
IN_PROGRESS: Status = "in_progress"
COMPLETED: Status = "completed"
NEEDS_REVIEW: Status = "needs_review"
FAILED: Status = "failed"


class Spend(TypedDict):
    """What a run has spent."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    wall_time_s: float


NOTHING_SPENT = Spend(model_calls=0, tool_calls=0, input_tokens=0, output_tokens=0, wall_time_s=0.0)


class Budget(TypedDict):
    """What a run may spend."""

    model_calls: int
    tool_calls: int
    tokens: int
    wall_time_s: float


def add_spend(spent: Spend | None, more: Spend) -> Spend:
    """Adds what a node spent to what the run had spent."""
    before = spent or NOTHING_SPENT
    return Spend(
        model_calls=before["model_calls"] + more["model_calls"],
        tool_calls=before["tool_calls"] + more["tool_calls"],
        input_tokens=before["input_tokens"] + more["input_tokens"],
        output_tokens=before["output_tokens"] + more["output_tokens"],
        wall_time_s=round(before["wall_time_s"] + more["wall_time_s"], 3),
    )


def spend_of(calls: list[CallRecord], elapsed_s: float) -> Spend:
    """Returns what a node's calls and time amount to."""
    return Spend(
        model_calls=sum(call["kind"] == "model" for call in calls),
        tool_calls=sum(call["kind"] == "tool" for call in calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        wall_time_s=elapsed_s,
    )


def append(items: list[Any] | None, more: list[Any]) -> list[Any]:
    """The append-only reducer: earlier items are never changed."""
    return [*(items or ()), *more]


class AgentState(TypedDict, total=False):
    """Fields that the state of every agent has."""

    run_id: str
    correlation_id: str
    status: Status
    iteration_count: Annotated[int, operator.add]
    started_at: str
    error: str
    stop_reason: str
    messages: Annotated[list[AnyMessage], append]
    spend: Annotated[Spend, add_spend]
    budget: Budget
    steps: Annotated[list[StepRecord], Topic(StepRecord)]


def budget_spent(spend: Mapping[str, Any] | None, budget: Mapping[str, Any] | None) -> str:
    """Returns which part of the budget is used up, or an empty string. A limit of 0 is no limit."""
    if not spend or not budget:
        return ""
    tokens = spend["input_tokens"] + spend["output_tokens"]
    used = {**spend, "tokens": tokens}
    over = (name for name in ("model_calls", "tool_calls", "tokens", "wall_time_s") if 0 < budget[name] <= used[name])
    return next(over, "")
