"""Messages in pieces: the same ones however they are heard of, and put together what was said."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from services.http_api.message_events import MessageEvent, MessageEvents

TEXTS = [
    "You said: Hello word0 word1",
    "  two  spaces \n\nand lines\tand tabs ",
    "ohneleerzeichen" * 7,
    "今日はとても良い天気ですね。散歩に行きましょう。" * 3,
    "x",
    "ends with a space ",
]


def told(events: Sequence[MessageEvent]) -> list[tuple[str, Any]]:
    return [(event.id, dict(event.data)) for event in events]


def put_together(events: Sequence[MessageEvent]) -> str:
    return "".join(event.data["delta"]["text"] for event in events if event.data["event"] == "content-block-delta")


def message(text: Any, **others: Any) -> dict[str, Any]:
    return {"type": "ai", "id": "m", "content": text, **others}


@pytest.mark.parametrize("text", TEXTS)
def test_a_message_is_told_in_the_same_pieces_however_it_comes(text: str) -> None:
    chance = random.Random(text)  # noqa: S311 - which cuts are tried
    whole = list(MessageEvents().whole((), "model", message(text)))
    assert put_together(whole) == text
    assert len({event.id for event in whole}) == len(whole)
    for _ in range(20):
        ends = sorted(chance.choices(range(len(text) + 1), k=5))
        chunks = [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True) if begin < end]
        messages = MessageEvents()
        heard: list[MessageEvent] = []
        for chunk in chunks:
            heard += messages.words((), "model", "m", chunk)
        heard += messages.end({"m": message(text)}, set())
        assert told(heard) == told(whole)


def test_what_was_said_by_the_end_is_told_again_where_it_is_another() -> None:
    messages = MessageEvents()
    heard = list(messages.words((), "model", "m", "one two "))
    heard += messages.end({"m": message("one three")}, {"model"})
    assert [event.data["event"] for event in heard][-2:] == ["content-block-finish", "message-finish"]
    assert heard[-2].data["content"] == {"type": "text", "text": "one three"}
    assert put_together(heard) == "one two "


def test_calls_of_tools_and_other_blocks_follow_the_words() -> None:
    content = [{"type": "text", "text": "Look: "}, {"type": "image", "url": "u"}, {"type": "odd"}, {"type": "tool_use"}]
    calls = [{"name": "look", "args": {"at": 1}, "id": "c"}]
    heard = list(MessageEvents().whole((), "model", message(content, tool_calls=calls, usage_metadata={"a": 1})))
    finished = [event.data["content"] for event in heard if event.data["event"] == "content-block-finish"]
    assert [each["type"] for each in finished] == ["text", "image", "non_standard", "tool_call"]
    assert finished[-1] == {"type": "tool_call", "id": "c", "name": "look", "args": {"at": 1}}
    assert [event.data["index"] for event in heard if event.data["event"] == "content-block-start"] == [0, 1, 2, 3]
    assert heard[-1].data["usage"] == {"a": 1}


def test_a_message_ends_with_its_node_or_the_state_that_has_it_and_no_other() -> None:
    messages = MessageEvents()
    for node, message_id in (("model", "m"), ("other", "n"), ("outer", "o")):
        namespace = ("outer",) if node == "outer" else ()
        list(messages.words(namespace, "inner" if namespace else node, message_id, "said "))
    assert {event.data["message_id"] for event in messages.end({"m": message("said so")}, set())} == {"m"}
    assert {event.data["message_id"] for event in messages.end({}, {"outer"})} == {"o"}
    assert [event.data["event"] for event in messages.take_back("other")] == ["error"]
    assert list(messages.end({}, None)) == []


def test_what_a_tool_says_is_no_message() -> None:
    assert list(MessageEvents().whole((), "tools", {"type": "tool", "id": "t", "content": "rain"})) == []
