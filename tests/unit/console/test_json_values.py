"""Values that people write as JSON: those that a message takes are read, others refused with a reason."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import runs_pb2

from services.console.json_values import NotJson, answer_value, json_struct, json_value
from services.kit.wire.carried_json import DEEPEST

TOO_DEEP = '{"a":' * 400 + "1" + "}" * 400


@pytest.mark.parametrize("text", [TOO_DEEP, "[" * 20_000, '"\\ud800"', '{"\\ud800": 1}', "1e999", "9" * 400])
def test_what_no_message_takes_is_refused(text: str) -> None:
    for read in (json_value, json_struct, answer_value):
        with pytest.raises(ValueError, match=r"^(is|has) "):
            read(text)


@pytest.mark.parametrize("text", ["{", "NaN", "yes please", ""])
def test_what_is_no_json_is_text_as_an_answer(text: str) -> None:
    assert MessageToDict(answer_value(text)) == text  # type: ignore[comparison-overlap]
    with pytest.raises(NotJson, match=r"^is not JSON: "):
        json_value(text)


def test_the_deepest_value_arrives_within_groups_of_an_input() -> None:
    given = runs_pb2.ListRunsResponse(runs=[runs_pb2.Run()])
    value = json_value('{"a":' * DEEPEST + "1" + "}" * DEEPEST)
    given.runs[0].input.graph.input.update({"a": {"b": {"c": value}}})
    assert runs_pb2.ListRunsResponse.FromString(given.SerializeToString()) == given
