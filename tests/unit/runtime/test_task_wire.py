"""The tasks of a step fit into an answer, whatever they were sent and wrote."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from services.runtime.api.task_wire import MOST_BYTES, MOST_BYTES_OF_MESSAGE, tasks_proto
from services.runtime.engine.snapshot import StepTask

MANY = MOST_BYTES // 3


@pytest.mark.parametrize("value", ["x" * MOST_BYTES, [1] * MANY, [{"a": 1}] * (MANY // 3), [""] * (MANY // 2)])
def test_tasks_fit_whatever_they_wrote_and_what_is_small_is_told(value: Any) -> None:
    written = [("large", value), ("small", "told")]
    told = tasks_proto([StepTask(f"{number}", "work", (), (value,), tuple(written)) for number in range(3)])
    values = [write.value for task in told for write in task.writes] + [task.sent for task in told]
    assert sum(each.ByteSize() for each in values) <= MOST_BYTES_OF_MESSAGE
    assert [task.writes[1].value.string_value for task in told] == ["told"] * 3


def test_what_fits_is_told_as_it_is() -> None:
    [told] = tasks_proto([StepTask("1", "work", (), ([1] * 1000,), (("found", {"a": [1, None, "b"]}),))])
    assert len(told.sent.list_value.values) == 1000
    assert MessageToDict(told.writes[0].value) == {"a": [1, None, "b"]}
