"""Tasks of a step as the proto has them: what was sent to each, and what it wrote, as JSON that fits into an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson
from google.protobuf.struct_pb2 import Value
from signalbox.v1 import runs_pb2, threads_pb2

from services.runtime.api.wire import struct_proto
from services.runtime.engine.snapshot import StepTask
from services.runtime.hosted.definition import json_values

# Of all that the tasks of a step were sent, wrote and ask, as JSON and as the message has it, where numbers may take
# more room. Where that is more, each is shown up to its share.
MOST_BYTES: Final = 500_000
MOST_BYTES_OF_MESSAGE: Final = 2 * MOST_BYTES


def tasks_proto(tasks: Sequence[StepTask]) -> list[threads_pb2.Task]:
    """Returns tasks, with what is too large of them in words."""
    parts = [part for task in tasks for part in _parts(task)]
    sizes = [len(orjson.dumps(part, default=str)) for part in parts]
    share = _share(sizes, MOST_BYTES)
    values = [_value(part) if size <= share else None for part, size in zip(parts, sizes, strict=True)]
    share = _share([value.ByteSize() if value else 0 for value in values], MOST_BYTES_OF_MESSAGE)
    shown = (
        value if value and value.ByteSize() <= share else _value(f"<{size:,} bytes of JSON>")
        for value, size in zip(values, sizes, strict=True)
    )
    return [_task(task, shown) for task in tasks]


def _share(sizes: Sequence[int], most: int) -> int:
    return most if sum(sizes) <= most else most // len(sizes)


def _parts(task: StepTask) -> Iterator[Any]:
    """Yields what a task was sent, wrote and asks, as JSON; in the order in which `_task` takes it."""
    for value in (*task.sent, *(value for _, value in task.writes), *(each.value for each in task.interrupts)):
        yield json_values({"value": value})["value"]


def _task(task: StepTask, shown: Iterator[Value]) -> threads_pb2.Task:
    return threads_pb2.Task(
        task_id=task.task_id,
        name=task.name,
        triggers=task.triggers,
        sent=next(shown) if task.sent else None,
        writes=[threads_pb2.TaskWrite(field=field, value=next(shown)) for field, _ in task.writes],
        interrupts=[runs_pb2.Interrupt(interrupt_id=each.id, payload=next(shown)) for each in task.interrupts],
        error=task.error,
        has_ended=task.has_ended,
        is_cached=task.is_cached,
        handles_failure=task.handles_failure,
    )


def _value(part: Any) -> Value:
    return struct_proto({"value": part}).fields["value"]
