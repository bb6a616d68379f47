"""The tasks of a step, as LangGraph tells of them when they begin, when they have ended, and in states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from signalbox.v1 import threads_pb2

from services.http_api.json_bodies import json_of_value

START: Final = "__start__"
# The error of a task that another's failure has broken off.
CANCELLED: Final = "CancelledError"
# A message that its node gave no id has got one in the state.
_KNOWN_BY: Final = (("id",), ("type", "content"), ("content",))
Interrupts = Mapping[str, dict[str, Any]]


def begun(task: threads_pb2.Task, values: Mapping[str, Any], reads: Sequence[str]) -> dict[str, Any]:
    """Returns a task that begins: what it is given is what was sent to it, or what its node reads of the state."""
    state = {name: values[name] for name in reads if name in values} if reads else dict(values)
    return {
        "id": task.task_id,
        "name": task.name,
        "input": json_of_value(task.sent) if task.HasField("sent") else state,
        "triggers": list(task.triggers),
    }


def ended(task: threads_pb2.Task, problem: str = "", asked: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Returns a task that has ended, or that pauses and asks; `problem` is what its run came to an end by."""
    return {
        "id": task.task_id,
        "name": task.name,
        "error": error_of(task, problem),
        "result": result_of(task),
        "interrupts": list(asked),
    }


def error_of(task: threads_pb2.Task, problem: str) -> str | None:
    """Returns what kept a task from its end: in the words of its run, where these speak of that."""
    return (problem if task.error in problem else task.error) if task.error else None


def update_of(task: threads_pb2.Task) -> dict[str, Any]:
    """Returns what a task has changed of the state, by its node; each write by itself where a field has several."""
    written = [(write.field, json_of_value(write.value)) for write in task.writes]
    if any(count > 1 for count in Counter(field for field, _ in written).values()):
        update: Any = [{field: value} for field, value in written]
    else:
        update = dict(written) or None
    return {task.name: update, **({"__metadata__": {"cached": True}} if task.is_cached else {})}


def result_of(task: threads_pb2.Task) -> dict[str, Any]:
    """Returns what a task has written, by field."""
    written = defaultdict(list)
    for write in task.writes:
        written[write.field].append(json_of_value(write.value))
    return {field: values[0] if len(values) == 1 else {"$writes": values} for field, values in written.items()}


def asked_by(task: threads_pb2.Task, open_: Interrupts | None) -> list[dict[str, Any]]:
    """Returns the interrupts of a task: as they are told where they are open, all of them where that is not asked."""
    if open_ is None:
        return [{"id": each.interrupt_id, "value": json_of_value(each.payload)} for each in task.interrupts]
    asked = () if task.has_ended else task.interrupts
    return [open_[each.interrupt_id] for each in asked if each.interrupt_id in open_]


def authors(tasks: Sequence[threads_pb2.Task]) -> Callable[[Mapping[str, Any]], str]:
    """Returns what says of a new message of the state which node wrote it, as far as it can be known again."""
    nodes: dict[bytes, str] = {}
    for task in tasks:
        for message in _within(json_of_value(write.value) for write in task.writes):
            for names in _KNOWN_BY:
                if all(name in message for name in names):
                    nodes.setdefault(_known_by(names, message), task.name)

    def author_of(message: Mapping[str, Any]) -> str:
        found = (nodes.get(_known_by(names, message)) for names in _KNOWN_BY)
        return next((node for node in found if node is not None), tasks[0].name if tasks else "")

    return author_of


def _known_by(names: Sequence[str], message: Mapping[str, Any]) -> bytes:
    return orjson.dumps([names, [message[name] for name in names]], option=orjson.OPT_SORT_KEYS)


def _within(written: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    for value in written:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping):
                yield each
