"""What prompts hold of tool results: within a budget, the oldest cut first, and the cut said."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from services.runtime.agents.context_budget import GatheredResult, gathered, lines_within, within


def exchange(number: int, text: str) -> list[BaseMessage]:
    """A call and its answer."""
    call = {"name": "read_file", "args": {"path": f"f{number}"}, "id": f"c{number}"}
    return [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id=f"c{number}", name="read_file")]


def texts(messages: list[BaseMessage]) -> list[str]:
    """The tool results among messages."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def test_within_the_budget_nothing_is_cut() -> None:
    messages = [HumanMessage("x" * 500), *exchange(1, "a" * 40), *exchange(2, "b" * 60)]
    assert within(messages, 100) == messages


def test_the_oldest_is_cut_first_and_says_so() -> None:
    messages = [*exchange(1, "a" * 40), *exchange(2, "b" * 60), *exchange(3, "c" * 50)]
    cut = "[cut: {} more characters; ask again for what you need of it]"
    assert texts(within(messages, 90)) == [cut.format(40), "b" * 40 + "\n" + cut.format(20), "c" * 50]
    # The history stays whole.
    assert texts(messages) == ["a" * 40, "b" * 60, "c" * 50]


@pytest.mark.parametrize("count", [1, 12, 300])
def test_prompts_are_bounded_however_much_was_read(count: int) -> None:
    messages = [message for number in range(count) for message in exchange(number, "x" * 20_000)]
    assert sum(map(len, texts(within(messages, 60_000)))) <= 60_000 + 80 * count


def test_what_was_gathered_leaves_out_refusals_and_the_answer() -> None:
    answer = ToolMessage("taken", tool_call_id="c", name="conclude")
    messages = [*exchange(1, "error: not_found: no such file"), *exchange(2, "b"), answer]
    assert gathered(messages, 100, without="conclude") == [GatheredResult("read_file", {"path": "f2"}, "b")]


def test_lines_say_how_many_are_left_out() -> None:
    assert lines_within(["aaa", "bbb"], 6) == ["aaa", "bbb"]
    assert lines_within(["aaa", "bbb", "c"], 5) == ["aaa", "bb", "[cut: 1 more characters, and 1 more lines]"]
