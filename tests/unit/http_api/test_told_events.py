"""Events of callbacks are told once and in order, whatever comes first; what is left out is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from signalbox.v1 import runs_pb2

from services.http_api.reader import Position, position_of
from services.http_api.told_events import MOST_HELD, ToldEvents
from tests.fixtures.growth import growth


def event(offset: int, *numbers: int, claim: str = "c", kept: int = 0, **about: Any) -> runs_pb2.RunEvent:
    """An event with events that have a number each; `kept` is its own number."""
    data = [runs_pb2.CustomWrite(json=json.dumps({"n": number})) for number in numbers]
    head = json.dumps({"event": "on_custom_event", "run_id": "r", "name": "e", **about})
    part = runs_pb2.CallbackEvents(claim=claim, offset=offset, about=head, data=data)
    return runs_pb2.RunEvent(sequence=kept, callback_events=[part])


def numbers(of: ToldEvents, *events: runs_pb2.RunEvent) -> list[int]:
    return [part.data["data"]["n"] for each in events for part in of.of(each)]


def test_each_is_told_once_though_parts_are_told_again_and_some_come_before_what_they_follow() -> None:
    events = (event(0, 0, 1), event(1, 1, 2), event(5, 5), event(4, 4, 5), event(0, 0, 1, 2, 3, kept=2))
    assert numbers(ToldEvents(Position()), *events) == [0, 1, 2, 3, 4, 5]


def test_who_comes_back_hears_the_rest_and_another_claim_begins_anew() -> None:
    first = ToldEvents(position := Position())
    heard = list(first.of(event(0, 0, 1)))
    assert numbers(ToldEvents(position_of(str(heard[0].id))), event(0, 0, 1, 2, kept=2)) == [1, 2]
    position = position_of(str(heard[1].id))
    other = ToldEvents(position)
    assert numbers(other, event(0, 0, 1, 2, kept=2), event(0, 7, claim="d"), event(1, 8, claim="d")) == [2, 7, 8]
    assert position_of(position.id) == position


def test_what_a_reader_asked_to_leave_out_is_not_waited_for() -> None:
    assert numbers(ToldEvents(Position(sequence=2)), event(9, 9, kept=3), event(10, 10)) == [9, 10]


def test_what_comes_too_early_is_held_within_bounds() -> None:
    told, large = ToldEvents(Position()), event(1, 1, name="x" * (MOST_HELD // 2))
    assert numbers(told, large, event(2, 2, name="y" * (MOST_HELD // 2)), event(0, 0)) == [0, 1]
    # It comes once more with the next event that is kept.
    assert numbers(told, event(0, 0, 1, 2, kept=2)) == [2]


def test_what_is_held_takes_time_that_grows_as_it_does() -> None:
    def prepare(count: int) -> Callable[[], object]:
        told, events = ToldEvents(Position()), [event(number, number) for number in range(1, count)]
        return lambda: numbers(told, *events, event(0, 0))

    assert prepare(1_000)() == [*range(1_000)]
    assert growth(prepare, 1_000, 8_000) < 30


def test_an_end_is_told_without_its_data_and_a_part_of_an_output_only_as_left_out() -> None:
    told, found = ToldEvents(Position()), []
    for number, kind in enumerate(("on_tool_end", "on_chat_model_stream")):
        each = event(number, 0, event=kind)
        too_long = runs_pb2.CustomWrite(left_out=runs_pb2.CUSTOM_WRITE_LEFT_OUT_TOO_LONG)
        each.callback_events[0].data[0].CopyFrom(too_long)
        found += list(told.of(each))
    much = runs_pb2.CallbackEvents(claim="c", offset=2)
    much.data.add(left_out=runs_pb2.CUSTOM_WRITE_LEFT_OUT_TOO_MUCH)
    found += list(told.of(runs_pb2.RunEvent(callback_events=[much])))
    names = {"run_id": "r", "name": "e"}
    assert [(part.event, part.data) for part in found] == [
        ("events", {"event": "on_tool_end", **names, "data": {}, "left_out": "TOO_LONG"}),
        ("events/left_out", {"event": "on_chat_model_stream", **names, "reason": "TOO_LONG"}),
        ("events/left_out", {"reason": "TOO_MUCH"}),
    ]
