"""What is made of answers that are not of the API's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.runtime.calls.mended_answers import MOST_NESTED, mend


def answer(**choice: Any) -> dict[str, Any]:
    """An answer of one choice."""
    return {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop", **choice}]}


def asking(arguments: str) -> dict[str, Any]:
    """An answer that asks for a tool."""
    function = {"name": "a_tool", "arguments": arguments}
    return answer(message={"role": "assistant", "tool_calls": [{"id": "1", "function": function}]})


def mended_arguments(arguments: str) -> str:
    given = asking(arguments)
    mend(given)
    said: str = given["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    return said


@pytest.mark.parametrize("role", ["", "model", "user", "system", "developer", "Assistant", None, 7, ["assistant"]])
def test_an_answer_is_the_assistants_whatever_it_says_of_itself(role: object) -> None:
    given = answer(message={"role": role, "content": "hi"})
    mend(given)
    assert given["choices"][0]["message"] == {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize("reason", [["stop"], {"a": 1}, 7, True])
def test_a_reason_to_finish_that_is_no_word_is_none(reason: object) -> None:
    given = answer(finish_reason=reason)
    mend(given)
    assert given["choices"][0]["finish_reason"] is None


@pytest.mark.parametrize("depth", [MOST_NESTED, 300, 900, 3000])
@pytest.mark.parametrize(("opening", "closing"), ["[]", ('{"a": ', "}")])
def test_arguments_nested_too_deep_are_told_as_text(depth: int, opening: str, closing: str) -> None:
    text = '{"query": ' + opening * depth + "1" + closing * depth + "}"
    said = mended_arguments(text)
    assert said.endswith(text)
    with pytest.raises((ValueError, RecursionError)):
        json.loads(said)


def test_arguments_nested_as_much_as_they_may_be_stay() -> None:
    text = '{"query": ' + "[" * (MOST_NESTED - 1) + "]" * (MOST_NESTED - 1) + "}"
    assert mended_arguments(text) == text
    wide = json.dumps({"rows": [[number] for number in range(5 * MOST_NESTED)]})
    assert mended_arguments(wide) == wide
