"""What was asked, as a recording keeps it: bounded whatever it is, and readable by whoever is sent it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from signalbox.v1 import recorded_answers_pb2, tools_pb2

from services.runtime.calls.recorded_request import (
    MOST_REQUEST_BYTES,
    kept_request,
    values_for_model,
    values_for_service,
)
from services.runtime.calls.recording import MOST_BYTES_WITH_REQUESTS, AnswerRecording

Answer = recorded_answers_pb2.RecordedAnswer


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"next": [value]}
    return value


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=300),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(st.characters()), inner, max_size=8),
    max_leaves=20,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(st.characters()), JSON), st.integers(-10, 2_000))
def test_whatever_is_asked_is_bounded_and_can_be_read(values: dict[str, Any], most_bytes: int) -> None:
    kept, cut_from = kept_request(values, most_bytes)
    if kept is None:
        assert cut_from > most_bytes
        return
    assert kept.ByteSize() <= most_bytes
    told = Answer.FromString(Answer(request=kept, request_bytes=cut_from).SerializeToString())
    MessageToDict(told)
    assert cut_from == 0 or cut_from > most_bytes


@pytest.mark.parametrize("odd", [nested(300), "\ud83d", math.nan, math.inf, 10**400, 2**53 + 1, b"x"])
def test_what_no_message_carries_costs_no_request(odd: Any) -> None:
    kept, _ = kept_request({"question": "How many?", "odd": odd}, MOST_REQUEST_BYTES)
    assert kept is not None
    assert MessageToDict(Answer.FromString(Answer(request=kept).SerializeToString()).request)["question"] == "How many?"


def test_of_a_long_request_its_beginning_and_its_newest_messages_are_kept_and_the_cut_is_said() -> None:
    messages = [{"role": "user", "content": f"{number}: {'x' * 2_000}"} for number in range(500)]
    kept, cut_from = kept_request({"messages": messages}, MOST_REQUEST_BYTES)
    assert kept is not None
    assert cut_from > 1_000_000
    told = MessageToDict(kept)["messages"]
    assert (told[0]["content"][:2], told[-1]["content"][:4]) == ("0:", "499:")
    assert "more characters)" in told[-1]["content"]


def test_nothing_but_what_is_asked_is_kept() -> None:
    payload = {"model": "m", "messages": [{"role": "user"}], "temperature": 0, "extra_headers": {"key": "secret"}}
    assert values_for_model(payload) == {"messages": [{"role": "user"}]}
    key = tools_pb2.IdempotencyKey(run_id="run", checkpoint_id="c", tool_call_id="t")
    call = tools_pb2.CallToolRequest(tool="q", idempotency_key=key, epoch=1)
    call.arguments.update({"query": "SELECT 1"})
    assert values_for_service(call) == {"query": "SELECT 1"}
    assert not values_for_service(tools_pb2.LookUpCallRequest(idempotency_key=key, epoch=1))


def test_a_run_that_has_recorded_much_keeps_answers_alone() -> None:
    request = {"messages": [{"role": "user", "content": "x" * 60_000}]}
    recording = AnswerRecording()
    for _ in range(100):
        recording.add(Answer(source="model", method="chat", answer=b"{}"), request)
    taken = [Answer.FromString(each) for each in recording.take()]
    assert sum(each.ByteSize() for each in taken) <= MOST_BYTES_WITH_REQUESTS + 100 * 100
    assert taken[0].HasField("request")
    assert taken[0].request_bytes == 0
    assert not taken[-1].HasField("request")
    assert (taken[-1].answer, taken[-1].request_bytes > 60_000) == (b"{}", True)
    # Whoever goes on with the run has no more room than its first replica had left.
    later = AnswerRecording(MOST_BYTES_WITH_REQUESTS)
    later.add(Answer(source="model", method="chat", answer=b"{}"), request)
    assert not Answer.FromString(later.take()[0]).HasField("request")
