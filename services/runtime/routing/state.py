"""What the state of every agent carries."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.channels import Topic
from langgraph.graph.message import add_messages

from services.runtime.routing.recorder import CallRecord, StepRecord

Status = Literal["in_progress", "completed", "needs_review", "failed", "cancelled"]
IN_PROGRESS: Status = "in_progress"
COMPLETED: Status = "completed"
# The fact that says which part of the budget is used up, in every table that looks at that.
BUDGET_SPENT = "budget_spent"
NEEDS_REVIEW: Status = "needs_review"
# The state field that says how far a run is.
STATUS: Final = "status"
# The channel that records of steps travel in.
STEPS: Final = "steps"
# Marks a list or a set in state that a node's update takes the place of, where others are added to.
REPLACED: Final = "replaced"
FAILED: Status = "failed"
_id_of = attrgetter("id")


class Spend(TypedDict):
    """What a run has spent; of the model calls, those but the guard's that rules answered, where there are any."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    wall_time_s: float
    offline_calls: NotRequired[int]


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
    total = Spend(
        model_calls=before["model_calls"] + more["model_calls"],
        tool_calls=before["tool_calls"] + more["tool_calls"],
        input_tokens=before["input_tokens"] + more["input_tokens"],
        output_tokens=before["output_tokens"] + more["output_tokens"],
        # As fine as nodes' times are recorded, so that these add up to it.
        wall_time_s=round(before["wall_time_s"] + more["wall_time_s"], 6),
    )
    return with_offline_calls(total, before.get("offline_calls", 0) + more.get("offline_calls", 0))


def with_offline_calls(spend: Spend, calls: int) -> Spend:
    """Returns what was spent with the model calls that rules answered; what has none stays as it was."""
    return {**spend, "offline_calls": calls} if calls else spend


def spend_of(calls: list[CallRecord], elapsed_s: float) -> Spend:
    """Returns what a node's calls and time amount to."""
    spent = Spend(
        model_calls=sum(call["kind"] == "model" for call in calls),
        tool_calls=sum(call["kind"] == "tool" for call in calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        wall_time_s=elapsed_s,
    )
    by_rules = [call for call in calls if call.get("offline_rules") and call.get("service") != "guard"]
    return with_offline_calls(spent, len(by_rules))


def append(items: list[Any] | None, more: list[Any]) -> list[Any]:
    """The append-only reducer: earlier items are never changed."""
    return [*(items or ()), *more]


def merge_messages(messages: list[AnyMessage] | None, more: Sequence[BaseMessage]) -> list[AnyMessage]:
    """The reducer with the meaning of LangGraph's `add_messages`: one message an id, a later one in its place.

    Messages that are there are looked at only for their ids, and stay the objects that they are: a checkpoint stores
    what was added (ADR 0004). A message without an id gets one; a `RemoveMessage` takes one away, or all.
    """
    before = messages or []
    for message in more:
        message.id = message.id or str(uuid4())
    known = set(map(_id_of, before))
    fresh = {message.id for message in more}
    if len(fresh) == len(more) and known.isdisjoint(fresh) and not any(isinstance(m, RemoveMessage) for m in more):
        return [*before, *cast("Sequence[AnyMessage]", more)]
    # A list, for a list is what it is given.
    return cast("list[AnyMessage]", add_messages(cast(Any, before), cast(Any, list(more))))


class CommonState(TypedDict, total=False):
    """Fields that the state of every agent has, whatever it does with its messages."""

    run_id: str
    correlation_id: str
    status: Status
    iteration_count: Annotated[int, operator.add]
    started_at: str
    error: str
    stop_reason: str
    spend: Annotated[Spend, add_spend]
    budget: Budget
    steps: Annotated[list[StepRecord], Topic(StepRecord)]


class AgentState(CommonState, total=False):
    """State whose messages are appended to."""

    messages: Annotated[list[AnyMessage], append]


class MessageState(CommonState, total=False):
    """State whose messages are known by their ids: what is there already is not there twice."""

    messages: Annotated[list[AnyMessage], merge_messages]


def budget_spent(spend: Mapping[str, Any] | None, budget: Mapping[str, Any] | None) -> str:
    """Returns which part of the budget is used up, or an empty string. A limit of 0 means no limit."""
    if not spend or not budget:
        return ""
    tokens = spend["input_tokens"] + spend["output_tokens"]
    used = {**spend, "tokens": tokens}
    over = (name for name in ("model_calls", "tool_calls", "tokens", "wall_time_s") if 0 < budget[name] <= used[name])
    return next(over, "")
