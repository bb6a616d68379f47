"""A checkpoint as people read it: where the run stands, what goes on from there, and the state in plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

START = "__start__"
TASKS = "__pregel_tasks"
# LangGraph's channel that a node waits on; writing to it makes the node run next.
BRANCH = "branch:to:"
# LangGraph's channel that a node waits on until some others have all ended: their names with `+`, then `:` and its own.
JOIN = "join:"
DEEPEST = 20


@dataclass(frozen=True)
class CheckpointSummary:
    """A checkpoint without its state. Step -1 is the input."""

    checkpoint_id: str
    step: int
    created_at: datetime
    next_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepTask:
    """One execution of a node: `sent` holds what was sent to it, if anything was; `writes` are those to the state."""

    task_id: str
    name: str
    triggers: tuple[str, ...]
    sent: tuple[Any, ...] = ()
    writes: tuple[tuple[str, Any], ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    error: str = ""
    has_ended: bool = False
    is_cached: bool = False
    handles_failure: bool = False


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at a checkpoint, in plain values; with tasks where they are asked for.

    `tasks` go on from it, and `ended_tasks` are those of the step that it ends.
    """

    checkpoint: CheckpointSummary
    values: dict[str, Any]
    tasks: tuple[StepTask, ...] = ()
    ended_tasks: tuple[StepTask, ...] = ()


def summary_of(found: CheckpointTuple) -> CheckpointSummary:
    """Returns what there is to say of a checkpoint without its state."""
    checkpoint = found.checkpoint
    written_at = datetime.fromisoformat(checkpoint["ts"])
    following = tuple(sorted(pending_nodes(found)))
    return CheckpointSummary(checkpoint["id"], found.metadata.get("step", 0), written_at, following)


def snapshot_of(found: CheckpointTuple) -> Snapshot:
    """Returns a checkpoint in plain values."""
    values = {name: readable(value) for name, value in state_values(found).items()}
    return Snapshot(summary_of(found), values)


def state_values(found: CheckpointTuple) -> Mapping[str, Any]:
    """Returns the state fields of a checkpoint; before the first step, those of the input."""
    given = found.checkpoint["channel_values"].get(START)
    fields = kept_values(found)
    return {**fields, **given} if isinstance(given, Mapping) else fields


def kept_values(found: CheckpointTuple) -> dict[str, Any]:
    """Returns the state fields of a checkpoint as LangGraph has them, without an input that is still to be taken."""
    values = found.checkpoint["channel_values"]
    return {name: value for name, value in values.items() if not is_internal(name)}


def is_internal(channel: str) -> bool:
    """Whether a channel is none of the state's fields."""
    return channel.startswith((BRANCH, JOIN, "__"))


def pending_nodes(found: CheckpointTuple) -> set[str]:
    """Returns the nodes that go on from a checkpoint; `__start__` when the graph has not begun."""
    sent = found.checkpoint["channel_values"].get(TASKS) or ()
    return {*pulled_nodes(found), *(each.node for each in sent if isinstance(each, Send))}


def deferred_nodes(found: CheckpointTuple) -> set[str]:
    """Returns the nodes that run once nothing else is left to."""
    values = found.checkpoint["channel_values"]
    return {name.removeprefix(BRANCH) for name, value in values.items() if name.startswith(BRANCH) and _waits(value)}


def pulled_nodes(found: CheckpointTuple) -> dict[str, tuple[str, ...]]:
    """Returns the nodes that go on from a checkpoint and read the state, each with the channels that may set it off."""
    checkpoint = found.checkpoint
    values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    nodes = {START} if START in values else set()
    for channel, value in values.items():
        if channel.startswith(BRANCH) and not _waits(value):
            node = channel.removeprefix(BRANCH)
            seen = checkpoint["versions_seen"].get(node, {}).get(channel)
            if seen is None or versions[channel] > seen:  # type: ignore[operator]
                nodes.add(node)
        elif channel.startswith(JOIN) and _ended(value) == _joined(channel)[0]:
            nodes.add(_joined(channel)[1])
    joins = [(channel, _joined(channel)[1]) for channel in versions if channel.startswith(JOIN)]
    return {
        node: (START,)
        if node == START
        else tuple(sorted((f"{BRANCH}{node}", *(channel for channel, to in joins if to == node))))
        for node in nodes
    }


def _waits(value: Any) -> bool:
    """Whether a channel waits until nothing else is left to run: it says so beside its value."""
    return isinstance(value, list | tuple) and len(value) == 2 and value[1] is False


def _ended(value: Any) -> Any:
    """Returns the nodes that a join has seen end; none yet where it waits until nothing else is left to run."""
    if isinstance(value, list | tuple):
        return value[0] if value[1] else None
    return value


def awaited_joins(found: CheckpointTuple) -> set[str]:
    """Returns the channels of nodes that wait for others, some of which have ended."""
    values = found.checkpoint["channel_values"]
    return {channel for channel, ended in values.items() if channel.startswith(JOIN) and ended}


def _joined(channel: str) -> tuple[set[str], str]:
    """Returns the nodes that a join waits for, and the one that waits."""
    starts, _, node = channel.removeprefix(JOIN).rpartition(":")
    return set(starts.split("+")), node


def written_nodes(found: CheckpointTuple) -> set[str]:
    """Returns the nodes that tasks have already asked for, in a step that is not complete yet."""
    nodes = set()
    for _task, channel, value in found.pending_writes or ():
        if channel.startswith(BRANCH):
            nodes.add(channel.removeprefix(BRANCH))
        elif channel == TASKS and isinstance(value, Send):
            nodes.add(value.node)
    return nodes


def readable(value: Any, depth: int = 0) -> Any:
    """Returns a value as JSON has it: messages as role and content, bytes as their number, what is unknown as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if depth >= DEEPEST:
        return str(value)
    if isinstance(value, BaseMessage):
        value = _message(value)
    elif isinstance(value, BaseModel):
        value = value.model_dump()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): readable(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [readable(each, depth + 1) for each in value]
    return str(value)


def _message(message: BaseMessage) -> dict[str, Any]:
    calls = [{"tool": call["name"], "arguments": call["args"]} for call in getattr(message, "tool_calls", ())]
    return {"role": message.type, "content": message.text, **({"tool_calls": calls} if calls else {})}
