"""What prompts hold of tool results: within a budget, the oldest cut first, and the cut said."""

from __future__ import annotations

import json
import re

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from services.runtime.agents.context_budget import (
    GatheredResult,
    gathered,
    lines_within,
    records_within,
    summarised,
    within,
)
from services.runtime.agents.prompt_messages import prompt_messages


def exchange(number: int, text: str) -> list[BaseMessage]:
    """A call and its answer."""
    call = {"name": "read_file", "args": {"path": f"f{number}"}, "id": f"c{number}"}
    return [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id=f"c{number}", name="read_file")]


def texts(messages: list[BaseMessage]) -> list[str]:
    """The tool results among messages."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def test_within_the_budget_nothing_is_cut() -> None:
    messages = [HumanMessage("x" * 5000), *exchange(1, "a" * 400), *exchange(2, "b" * 600)]
    assert within(messages, 1200) == messages


def test_the_oldest_is_cut_first_and_says_so() -> None:
    messages = [*exchange(1, "a" * 400), *exchange(2, "b" * 600), *exchange(3, "c" * 500)]
    first, second, third = texts(within(messages, 1000))
    assert (first, third) == ("a" * 200 + "\n[cut: 200 more characters; ask again for what you need of it]", "c" * 500)
    assert re.fullmatch(r"b{400,450}\n\[cut: (1[5-9]\d|200) more characters; ask again .*", second)
    # The history stays whole.
    assert texts(messages) == ["a" * 400, "b" * 600, "c" * 500]


TABLE = "name | temperature\n" + "".join(f"device-{number} | {number}.5\n" for number in range(1, 51))


@pytest.mark.parametrize("left", [0, 10, 300])
def test_of_what_is_cut_columns_rows_and_their_number_are_kept(left: int) -> None:
    summary = summarised(TABLE, left)
    head, _, rest = summary.partition("\n[cut: ")
    assert head.startswith("name | temperature\ndevice-1 | 1.5")
    assert TABLE.startswith(head)
    assert re.fullmatch(r"\d+ more characters of 51 lines\]\ndevice-50 \| 50\.5", rest)
    assert len(summary) < left + 200


@pytest.mark.parametrize("text", ["", "x", "x\ny", "\n" * 50, "x" * 230, "a\n" + "b" * 10**6, "b" * 10**6 + "\na"])
def test_a_summary_is_bounded_and_never_longer_than_the_text(text: str) -> None:
    for characters in (0, 1, 100, 1000):
        summary = summarised(text, characters)
        assert len(summary) <= min(len(text), characters + 3 * 200 + 100)
        assert summary == text or "[cut: " in summary


def test_all_that_holds_results_is_summarised_alike() -> None:
    [message] = texts(within([*exchange(1, TABLE), HumanMessage("go on")], 10))
    [record] = records_within([{"text": TABLE}], 10)
    *lines, last = lines_within(TABLE.splitlines(), 60)
    for told in (message, record["text"], "\n".join([*lines, last])):
        assert told.startswith("name | temperature\ndevice-1 | 1.5\n")
        assert told.endswith("\ndevice-50 | 50.5")
        assert "[cut: " in told


def test_what_a_model_said_and_asked_for_is_cut_too() -> None:
    call = {"name": "execute_db_query" * 50, "args": {"query": "SELECT " + "x" * 5000}, "id": "c1"}
    said = AIMessage("y" * 9000, tool_calls=[{**call, "id": f"c{number}"} for number in range(400)])
    opening, cut, last = within([HumanMessage("why?"), said, HumanMessage("go on")], 2000)
    assert (opening.text, last.text) == ("why?", "go on")
    assert isinstance(cut, AIMessage)
    assert cut.text.endswith("[cut: 7000 more characters]")
    assert len(cut.tool_calls) < 40
    assert len(str(cut.tool_calls)) < 8000
    assert prompt_messages([opening, cut, ToolMessage("found", tool_call_id="c0"), last])[2].text == "found"


@pytest.mark.parametrize("count", [1, 12, 300, 3000])
def test_prompts_are_bounded_however_much_was_read(count: int) -> None:
    messages = [HumanMessage("q"), *(each for number in range(count) for each in exchange(number, "x" * 20_000))]
    held = within(messages, 60_000)
    assert sum(len(each.model_dump_json()) for each in prompt_messages(held)) < 500_000
    assert sum(map(len, texts(held))) <= 130_000
    assert texts(held)[-1] == "x" * 20_000
    assert any("messages between" in each.text for each in held) is (count > 100)


@pytest.mark.parametrize("count", [1, 25, 1000])
def test_records_are_bounded_and_the_newest_stays(count: int) -> None:
    records = [
        {"tool": "query_graph", "arguments": {"key": "k" * 900}, "text": "x" * 5000, "number": n} for n in range(count)
    ]
    held = records_within(records, 20_000)
    assert len(json.dumps(held)) < 60_000
    assert held[-1] == records[-1]
    assert records_within(records[:1], 20_000) == records[:1]
    assert ("left_out" in held[0]) is (count > 100)


def test_what_was_gathered_leaves_out_refusals_and_the_answer() -> None:
    answer = ToolMessage("taken", tool_call_id="c", name="conclude")
    messages = [*exchange(1, "error: not_found: no such file"), *exchange(2, "b"), answer]
    assert gathered(messages, 100, without="conclude") == [GatheredResult("read_file", {"path": "f2"}, "b")]


def test_lines_say_how_many_are_left_out() -> None:
    assert lines_within(["aaa", "bbb"], 6) == ["aaa", "bbb"]
    assert lines_within(["aaa", "bbb", "c"], 5) == ["aaa", "bb", "[cut: 1 more characters, and 1 more lines]", "c"]
