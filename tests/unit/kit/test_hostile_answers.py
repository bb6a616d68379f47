"""What a model writes costs time in proportion to its length, whatever it is: it is read on the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from services.kit.models.answers import mend, mended_arguments
from services.kit.models.mending import each_key_once, mended
from services.kit.models.provider_words import provider_words
from services.kit.models.reasoning import without_reasoning
from services.kit.models.records import read_text
from services.kit.models.written_calls import LONGEST_CALLS_IN_TEXT, calls_in, has_unread_call, tool_name

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number", "maximum": 1},
        "sure": {"type": "boolean"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "verdict": {"enum": ["RIGHT", "WRONG"]},
        "file": {"type": "string"},
        "first_line": {"type": "integer"},
        "last_line": {"type": "integer"},
    },
    "required": ["query"],
}
OFFERED = {"look": SCHEMA}
SIZE = 30_000
# Less is in the clock's noise; what grows with the square takes a second for as much.
JUDGED_S = 0.1
MOST_GROWTH = 3.0
REPEATED = [
    "\n", " ", '"', "\\", '\\"', '"\\"', "'", "{", "}", "[", "]", '{"a": ', "{'a': ", "{a: ", ", a: ", "{}",
    '{"a": 1}, ', "<", ">", "`", "```", "```\n", "<s>", "</s>", "</s>\n", "<|im_end|>", "<|im_end|>\n",
    "<|im_end|>\n<|im_start|>", "<|", "[INST]", "<answer>", "</answer>", "<think>", "</think>", "<think ", "[THINK]",
    "<tool_call>", "<look>", "<look>\n", "</look>", "<query>", "<function=look>", "<parameter=query>\n",
    '<invoke name="look">', '<parameter name="query">', "<arg_key>a", "<arg_key>a</arg_key><arg_value>",
    "```tool_code\n", "<tools>", "<TOOLCALL>", '<function="look"', "assistantcommentary ", ". <tool_call>",
    "<|channel|>", "<|start|>", "to=functions.", "[TOOL_CALLS]", "\nTool: ", "\nAction: look\n", "\nAction:-",
    "\nAction: look\nAction Input: {}\nObservation: 1\n\n", "\n \n", "assistant", "a", "a.", "a ", "1", "1.", "1:",
    "-", "- ", "*", "(", "look(", "\u00e9", "/", "sk-", "token", "bearer ",
]  # fmt: skip
BEFORE = [
    "",
    "<",
    "x",
    '{"query": ',
    '{"query": "',
    "```json\n",
    "<function=look>",
    "<tool_call>look<arg_key>",
    "Action: look\nAction Input: {}\nObservation: ",
    "<answer>",
    "look(query=",
]


class Judged(BaseModel):
    verdict: str


def message(**said: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **said}, "finish_reason": "stop"}]}


def mend_fields(text: str) -> None:
    for name in SCHEMA["properties"]:
        mended({name: text}, SCHEMA)


READERS: dict[str, Callable[[str], object]] = {
    "a verdict": lambda text: mend(message(content=text)),
    "an answer": lambda text: mend(message(content=text), OFFERED),
    "calls": lambda text: calls_in(text[-LONGEST_CALLS_IN_TEXT:], OFFERED),
    "what calls could not be read": lambda text: has_unread_call(text, OFFERED),
    "arguments": lambda text: mended_arguments(text, SCHEMA),
    "a name": lambda text: tool_name(text, OFFERED),
    "reasoning": without_reasoning,
    "a record": lambda text: read_text(Judged, text),
    "fields": mend_fields,
    "a provider's words": lambda text: provider_words(text.encode(), "key"),
}
# For these it matters what the rest stands in.
OPENED = ("a verdict", "an answer", "calls", "arguments", "a record")


def seconds(read: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    with suppress(ValueError, RecursionError):
        read(text)
    return time.process_time() - start


@pytest.mark.parametrize("reader", READERS)
def test_what_a_model_writes_takes_time_in_proportion(reader: str) -> None:
    read, worse = READERS[reader], []
    for before in BEFORE if reader in OPENED else ("",):
        for repeated in REPEATED:
            half, whole = (before + repeated * (size // len(repeated)) + "x" for size in (SIZE // 2, SIZE))
            if seconds(read, whole) < JUDGED_S:
                continue
            # Side by side, and the best of some: what else runs makes single ones slow.
            growth = min(seconds(read, whole) for _ in range(3)) / min(seconds(read, half) for _ in range(3))
            if growth > MOST_GROWTH:
                worse.append((before, repeated, growth))
    assert not worse


def test_a_key_that_stands_there_twice_is_found_among_many() -> None:
    """In steps, by how often a name is compared."""

    class Name(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def steps(many: int) -> int:
        Name.compared = 0
        with pytest.raises(ValueError, match="stands there 2 times"):
            each_key_once([(Name(f"a{number}"), 1) for number in [*range(many), many - 1]])
        return Name.compared

    assert steps(800) < MOST_GROWTH * (steps(400) + 1)
