"""A run as events of its thread: known by the same ids and numbers whoever tells them, also through its questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2

from services.http_api.event_stream import Part
from services.http_api.reader import LIFECYCLE
from services.http_api.run_request import CHECKPOINTS, UPDATES, VALUES
from services.http_api.thread_events import RunEvents, ThreadEvent, first_number, run_id_of, status_of
from services.http_api.thread_stream import StreamBody

RUN = "01a21d5c-1549-7ff9-bdc7-299fdf254fbd"
PLACE = "1f1ea6cb-0df2-6530-bfff-868f529bf4a4"
SAID = {"type": "ai", "id": "m", "content": "Hello there "}


def run(seconds: int = 1_795_788_796, **given: Any) -> runs_pb2.Run:
    return runs_pb2.Run(run_id=RUN, agent="agent", create_time=Timestamp(seconds=seconds), **given)


def at_step(step: int, *messages: Any) -> list[Part]:
    config = {"configurable": {"checkpoint_id": f"{RUN}:{PLACE}"}}
    metadata = {"source": "loop", "step": step}
    checkpoint = {"config": config, "parent_config": None, "metadata": metadata, "values": {"messages": list(messages)}}
    return [Part(VALUES, {"messages": list(messages)}), Part(CHECKPOINTS, checkpoint)]


def words(text: str) -> Part:
    message = {"type": "AIMessageChunk", "id": "m", "content": text}
    return Part("messages", [message, {"langgraph_node": "model"}])


def changed(sequence: int, **given: Any) -> Part:
    change = runs_pb2.StateChanged(**given)
    return Part(LIFECYCLE, runs_pb2.RunEvent(sequence=sequence, event_time=Timestamp(seconds=9), state_changed=change))


ASKED = changed(3, input_request=runs_pb2.InputRequest(input_request_id="q", question="Well?"))
ANSWERED = changed(4, input_received=runs_pb2.InputReceived(input_request_id="q"))
UPDATED = Part(UPDATES, {"model": {"messages": [SAID]}})


def told(parts: Sequence[Part]) -> list[ThreadEvent]:
    events = RunEvents(run(), first_number(run(), 0))

    def all_of_it() -> Iterator[ThreadEvent]:
        yield events.began()
        for part in parts:
            yield from events.of(part, is_hosted=True)
        yield from events.over(run(state=runs_pb2.RUN_STATE_SUCCEEDED, end_time=Timestamp(seconds=10)))

    return list(all_of_it())


def test_numbers_rise_and_those_of_a_step_are_the_same_whenever_it_is_told() -> None:
    live = told(
        [*at_step(0), words("Hello "), words("there "), UPDATED, *at_step(1, SAID), ASKED, ANSWERED, *at_step(2, SAID)]
    )
    late = told([*at_step(0), UPDATED, *at_step(1, SAID), *at_step(2, SAID), ASKED, ANSWERED])
    for events in (live, late):
        numbers = [event.number for event in events]
        assert numbers == sorted(numbers)
    of_state = {event.id: event.number for event in live if event.method in (CHECKPOINTS, VALUES, UPDATES)}
    assert of_state == {event.id: event.number for event in late if event.id in of_state}
    assert all(event.number < 1 << 53 for event in live)
    # Nothing of what is told late is passed over by who has heard the rest.
    by_id = {event.id: event.number for event in live}
    assert all(event.number >= by_id[event.id] for event in late if event.id in by_id)


def test_an_update_has_the_same_id_whatever_the_order_of_its_fields() -> None:
    changes = {"plan": {"title": "A", "done": False}, "messages": [SAID]}
    turned = {"messages": [dict(reversed(SAID.items()))], "plan": {"done": False, "title": "A"}}
    one, other = (told([*at_step(0), Part(UPDATES, {"model": each})]) for each in (changes, turned))
    assert [event.id for event in one] == [event.id for event in other]


def test_behind_an_answer_a_run_has_another_id_that_names_it() -> None:
    events = told([*at_step(0), ASKED, ANSWERED])
    lifecycle = [(event.id.split(":")[1], event.data["event"]) for event in events if event.method == "lifecycle"]
    assert lifecycle == [
        (RUN, "running"), (RUN, "interrupted"), (f"{RUN}~1", "running"), (f"{RUN}~1", "completed")
    ]  # fmt: skip
    assert run_id_of(f"{RUN}~1") == RUN
    [answered] = [event for event in events if event.method == "input.answered"]
    assert answered.data == {"interrupt_ids": ["q"]}
    assert answered.channel == "input"


def test_words_that_are_taken_back_are_said_to_be() -> None:
    reset = runs_pb2.TokensReset(node="model", cause=runs_pb2.TOKENS_RESET_CAUSE_RERUN)
    events = told([*at_step(0), words("Hello "), Part(LIFECYCLE, runs_pb2.RunEvent(tokens_reset=reset))])
    assert [event.data["event"] for event in events if event.method == "messages"][-1] == "error"


def test_the_next_run_has_greater_numbers_also_where_both_were_created_at_once() -> None:
    first = first_number(run(), 0)
    assert first_number(run(), first) > first
    assert first_number(run(1_795_788_797), first) > told([*at_step(0)])[-1].number


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"state": runs_pb2.RUN_STATE_RUNNING}, "running"),
        (
            {"state": runs_pb2.RUN_STATE_AWAITING_INPUT, "input_request": runs_pb2.InputRequest(question="?")},
            "interrupted",
        ),
        ({"state": runs_pb2.RUN_STATE_SUCCEEDED, "end_time": Timestamp(seconds=1)}, "completed"),
        ({"state": runs_pb2.RUN_STATE_FAILED, "error": "no", "end_time": Timestamp(seconds=1)}, "failed"),
        ({"state": runs_pb2.RUN_STATE_NEEDS_REVIEW, "end_time": Timestamp(seconds=1)}, "failed"),
        ({"state": runs_pb2.RUN_STATE_CANCELLED, "end_time": Timestamp(seconds=1)}, "interrupted"),
    ],
)
def test_where_a_run_is_in_its_life(given: Any, status: str) -> None:
    assert status_of(run(**given))[0] == status


def event(namespace: Sequence[str] = (), number: int = 5, method: str = "values") -> ThreadEvent:
    return ThreadEvent(method, "x", number, 0, {}, namespace)


@pytest.mark.parametrize(
    ("asked", "namespace", "holds"),
    [
        ({}, ("a", "b"), True),
        ({"namespaces": [[]], "depth": 0}, (), True),
        ({"namespaces": [[]], "depth": 0}, ("a",), False),
        ({"namespaces": [["a"]]}, ("a:1", "b"), True),
        ({"namespaces": [["a:2"]]}, ("a:1", "b"), False),
        ({"namespaces": [["a", "b"]]}, ("a",), False),
        ({"namespaces": [["b"], ["a"]], "depth": 1}, ("a", "b", "c"), False),
    ],
)
def test_what_of_graphs_inside_nodes_is_wanted(asked: Any, namespace: Sequence[str], holds: bool) -> None:
    assert StreamBody(channels=["values"], **asked).has(event(namespace)) is holds


def test_behind_a_number_comes_what_is_greater_and_what_shares_it() -> None:
    body = StreamBody(channels=["values", "messages"], since=5)
    assert [body.has(event(number=number)) for number in (4, 5, 6)] == [False, False, True]
    assert [body.has(event(number=number, method="messages")) for number in (4, 5, 6)] == [False, True, True]
