"""The reducer of messages that are known by their ids: what LangGraph's means, at the cost of what is added."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from services.runtime.engine.changes import Stored, growth, pack_changes
from services.runtime.routing.state import merge_messages

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
MESSAGES = st.builds(lambda kind, text, name: kind(text, id=name), st.sampled_from([HumanMessage, AIMessage]),
                     st.text(max_size=3), IDS)  # fmt: skip
BATCHES = st.lists(st.lists(MESSAGES, max_size=4), max_size=5)


def copies(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy() for message in messages]


@given(BATCHES)
def test_it_means_what_langgraphs_own_means(batches: list[list[BaseMessage]]) -> None:
    ours: Any = []
    theirs: Any = []
    for batch in batches:
        ours, theirs = merge_messages(ours, copies(batch)), add_messages(theirs, copies(batch))  # type: ignore[arg-type]
    assert ours == theirs


def test_messages_are_taken_away_as_langgraphs_own_does() -> None:
    kept: Any = merge_messages(None, [HumanMessage("1", id="a"), HumanMessage("2", id="b")])
    assert [m.id for m in merge_messages(kept, [RemoveMessage(id="a")])] == ["b"]
    assert merge_messages(kept, [RemoveMessage(id=REMOVE_ALL_MESSAGES)]) == []


def test_a_message_without_an_id_gets_one_and_is_not_there_twice() -> None:
    message = HumanMessage("once")
    kept: Any = merge_messages([], [message])
    assert kept[0].id
    assert merge_messages(kept, [message]) == kept


def test_what_is_stored_is_what_was_added() -> None:
    """A step with one more message stores as many bytes after a thousand messages as after ten."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def bytes_of_a_step(length: int) -> int:
        before: Any = merge_messages([], [HumanMessage("x" * 500, id=f"m{number:05}") for number in range(length)])
        after = merge_messages(before, [HumanMessage("x" * 500, id="n0000")])
        added = growth(before, after)
        assert added is not None
        assert len(added) == 1
        stored = {"messages": Stored("1", before)}
        return len(pack_changes(serde, {"messages": after}, {"messages": "2"}, stored))

    assert bytes_of_a_step(1000) == bytes_of_a_step(10)
