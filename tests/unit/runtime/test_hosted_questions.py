"""What a hosted graph asks with is worded, whatever it is."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Interrupt
from pydantic import BaseModel

from services.runtime.hosted.interrupts import MOST_ASKED_BYTES, question_of
from services.runtime.routing.storable import presentable_parts


@dataclass
class Point:
    """A payload of a graph's own type."""

    x: int


class Item(BaseModel):
    """A payload of a graph's own type."""

    name: str


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\x00",
        {"bytes": b"\xfe", "point": Point(1), "item": Item(name="a"), "message": HumanMessage("b"), "set": {1}},
        {"when": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=1), "number": math.nan, "other": object()},
        {(1, 2): "a", 3: "b", None: "c"},
        "half of a pair: \ud800",
        None,
        [],
    ],
)
def test_a_payload_of_any_kind_is_worded(payload: Any) -> None:
    _, said = question_of([Interrupt(payload, id="1")])
    assert isinstance(said["question"], str)
    shown = presentable_parts(said, 10_000)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("payload", "count"),
    [("好" * 180_000, 1), ('"' * 150_000, 2), ("\U0001f600" * 20_000, 30)],
    ids=["three bytes each", "escaped", "many"],
)
def test_payloads_that_take_many_bytes_a_character_are_cut_and_asked(payload: str, count: int) -> None:
    _, said = question_of([Interrupt(payload, id=str(n)) for n in range(count)])
    asked = said["detail"]["interrupts"]
    assert all(each["payload"].endswith("…") for each in asked)
    assert len(json.dumps(asked, ensure_ascii=False).encode()) <= MOST_ASKED_BYTES
