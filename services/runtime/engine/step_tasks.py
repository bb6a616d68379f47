"""The tasks of a step: what runs next from a checkpoint, and what of it has been written on top of that.

All of it is read from rows, so that any replica tells it, also one without the graph's code: the channels of a
checkpoint say which nodes run next and what was sent to them, and the paths of writes, of which task they are.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Send

from services.runtime.engine.snapshot import START, TASKS, StepTask, is_internal, pulled_nodes
from services.runtime.routing.storable import presentable

PULL, PUSH = "__pregel_pull", "__pregel_push"
# Of a task that handles another's failure, behind that one's path.
HANDLER: Final = "node_error_handler"
_ERROR, _ERROR_SOURCE, _INTERRUPT, _RESUME = "__error__", "__error_source_node__", "__interrupt__", "__resume__"
_CONTROL: Final = frozenset((_ERROR, _ERROR_SOURCE, _INTERRUPT, _RESUME))
# An exception is stored as it represents itself.
_TYPE: Final = re.compile(r"[A-Za-z_]\w{0,99}(?=\()")
_UNKNOWN_TYPE: Final = "Exception"


class TaskWrites(NamedTuple):
    """What a task has written on top of a checkpoint, as it is stored: its path in the step, and the writes."""

    task_id: str
    path: str
    writes: Sequence[tuple[str, Any]]


def path_of(kind: str, *parts: str | int) -> str:
    """Returns the path of a task as LangGraph writes it."""
    return f"~{', '.join((kind, *(each if isinstance(each, str) else f'{each:010d}' for each in parts)))}"


def tasks_of(found: CheckpointTuple, rows: Iterable[TaskWrites], steps_channel: str) -> list[StepTask]:
    """Returns the tasks that run next from a checkpoint, with what they have written, in LangGraph's order.

    What was sent comes first, then what reads the state, by name, and last what handles the failures of others.
    """
    written: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for row in rows:
        written[row.path] += row.writes
    told: list[StepTask] = []
    handlers: list[StepTask] = []
    for path, task in _planned(found):
        told.append(_with_writes(task, written[path], steps_channel) if path in written else task)
        handler = f"{path}, {HANDLER}, {0:010d}"
        if name := _node_of(written.get(handler, ()), steps_channel):
            handling = StepTask(_id(found, handler), name, (PUSH,), task.sent, handles_failure=True)
            handlers.append(_with_writes(handling, written[handler], steps_channel))
    return told + handlers


def _planned(found: CheckpointTuple) -> Iterator[tuple[str, StepTask]]:
    values = found.checkpoint["channel_values"]
    for number, packet in enumerate(values.get(TASKS) or ()):
        if isinstance(packet, Send):
            path = path_of(PUSH, number, 0)
            yield path, StepTask(_id(found, path), packet.node, (PUSH,), (packet.arg,))
    for node, triggers in sorted(pulled_nodes(found).items()):
        path = path_of(PULL, node)
        sent = (values[START],) if node == START else ()
        yield path, StepTask(_id(found, path), node, triggers, sent)


def _id(found: CheckpointTuple, path: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{found.checkpoint['id']}/{path}"))


def _with_writes(task: StepTask, writes: Sequence[tuple[str, Any]], steps_channel: str) -> StepTask:
    """Returns a task with what it has written; one that ran again has ended if it has written anything at last."""
    asked = [value for channel, value in writes if channel == _INTERRUPT]
    errors = [value for channel, value in writes if channel == _ERROR]
    is_handled = any(channel == _ERROR_SOURCE for channel, _ in writes)
    has_output = any(channel not in _CONTROL for channel, _ in writes)
    # It may have failed before, and have done what it had to when it ran again.
    failed = errors[-1:] if is_handled or not has_output else []
    return replace(
        task,
        writes=tuple((channel, value) for channel, value in writes if not is_internal(channel)),
        interrupts=tuple(each for value in asked for each in (value if isinstance(value, Sequence) else (value,))),
        error=_type_of(failed[0]) if failed else "",
        has_ended=has_output or bool(failed),
        is_cached=any(record.get("cached", False) for record in _records(writes, steps_channel)),
    )


def _type_of(error: Any) -> str:
    if isinstance(error, BaseException):
        return presentable(type(error).__name__)
    found = _TYPE.match(str(error))
    return found[0] if found else _UNKNOWN_TYPE


def _node_of(writes: Sequence[tuple[str, Any]], steps_channel: str) -> str:
    """Returns the node that wrote, by its record; nothing where it has not ended."""
    return next((str(record["node"]) for record in reversed(_records(writes, steps_channel))), "")


def _records(writes: Sequence[tuple[str, Any]], steps_channel: str) -> list[Mapping[str, Any]]:
    return [value for channel, value in writes if channel == steps_channel and isinstance(value, Mapping)]
