"""What an answer rests on: known from what happened, said in words, and never the model's to claim."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from signalbox.v1 import data_chat_pb2, runs_pb2, tools_pb2

from services.kit.identity.caller import Caller
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.data_chat.definition import AGENT, begin, result
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.routing import make_routers
from services.runtime.agents.data_chat.wording import (
    NO_QUERY,
    NO_RESULT,
    NO_TABLE,
    grounding_by,
    grounding_of,
    with_result,
    without_result,
)
from services.runtime.routing.state import COMPLETED, NEEDS_REVIEW, NOTHING_SPENT

DATA, REFUSED, UNANSWERABLE, NOT_CHECKED = (
    data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA,
    data_chat_pb2.GROUNDING_REFUSED,
    data_chat_pb2.GROUNDING_UNANSWERABLE,
    data_chat_pb2.GROUNDING_NOT_CHECKED,
)
POLICY = DataChatPolicy()
INVENTED = "The number of readings is 10."
CALL = {"name": "execute_db_query", "args": {"query": "SELECT 1"}, "id": "c1"}
FAILED_QUERY = (AIMessage("", tool_calls=[CALL]), ToolMessage("no", tool_call_id="c1", name="execute_db_query"))
FAILED = {"last_tool": "execute_db_query", "last_error": "error: timeout: it took too long"}


def said(text: str, finish_reason: str = "stop") -> AIMessage:
    return AIMessage(text, response_metadata={"finish_reason": finish_reason})


def state(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage("How many?"), *messages], "spend": NOTHING_SPENT, "screening": "allowed", **more}


@pytest.mark.parametrize(
    ("ended", "grounding", "begins"),
    [
        (state(said(INVENTED)), NOT_CHECKED, f"{NO_QUERY} {INVENTED}"),
        (state(said("I can't answer this.")), UNANSWERABLE, f"{NO_QUERY} I can't answer this."),
        (state(said("Sorry, but I cannot tell.")), UNANSWERABLE, f"{NO_QUERY} Sorry, but I cannot tell."),
        (state(said("UNANSWERABLE: no such table")), UNANSWERABLE, f"{NO_QUERY} no such table"),
        (
            state(*FAILED_QUERY, said(INVENTED), **FAILED),
            UNANSWERABLE,
            f"{NO_RESULT} {INVENTED} The last attempt failed",
        ),
        (state(*FAILED_QUERY, **FAILED), UNANSWERABLE, "I could not find an answer"),
        (state(said("There are te", "length")), UNANSWERABLE, "I could not find an answer"),
        (state(AIMessage("Let me look.", tool_calls=[CALL])), UNANSWERABLE, "I could not find an answer"),
        (state(said("")), UNANSWERABLE, "I could not find an answer"),
    ],
)
def test_without_a_result_nothing_is_a_fact(ended: dict[str, Any], grounding: int, begins: str) -> None:
    update = without_result(ended)
    assert update["answer"].startswith(begins)
    assert (update["grounding"], update["status"]) == (grounding, NEEDS_REVIEW)


def output(ended: dict[str, Any]) -> data_chat_pb2.DataChatOutput:
    return result(ended, data_chat_pb2.DataChatInput(question="How many?"))


def test_rows_are_what_an_answer_rests_on_and_are_shown_without_a_wording() -> None:
    brought = state(rows=b"", result_text="devices\n13\n(1 row)", sql_query="SELECT 13")
    assert grounding_of(brought) == DATA
    assert "devices\n13" in output(brought).answer
    assert output({**brought, "answer": "Thirteen."}).answer == "Thirteen."


@pytest.mark.parametrize("wording", ["The number of readings is 10.", ""])
def test_a_result_that_was_read_from_no_table_is_no_answer_from_data(wording: str) -> None:
    grounding = grounding_by(tools_pb2.ToolOutput(reads_tables=False))
    brought = state(rows=b"", result_text="readings\n10", sql_query="SELECT 10 AS readings", grounding=int(grounding))
    update = with_result(brought, wording)
    assert update["answer"].startswith(f"{NO_TABLE} ")
    assert "10" in update["answer"].removeprefix(NO_TABLE)
    assert update["status"] == NEEDS_REVIEW
    assert output(brought).answer.startswith(NO_TABLE)  # also of a run that ended before it was worded
    assert output(brought).grounding == NOT_CHECKED


@pytest.mark.parametrize("result", [tools_pb2.ToolOutput(reads_tables=True), tools_pb2.ToolOutput()])
def test_an_executor_that_does_not_say_counts_as_before(result: tools_pb2.ToolOutput) -> None:
    """Of the last release: while it serves beside this one, its answers are not all left to a person."""
    brought = state(rows=b"", result_text="devices\n13", sql_query="SELECT", grounding=int(grounding_by(result)))
    assert with_result(brought, "Thirteen.") == {"answer": "Thirteen.", "status": COMPLETED}
    assert output(brought).grounding == DATA


@pytest.mark.parametrize(("screening", "grounding"), [("blocked", REFUSED), ("unscreened", NOT_CHECKED)])
def test_what_was_not_let_through_is_no_answer(screening: str, grounding: int) -> None:
    assert output(state(screening=screening)).grounding == grounding


@pytest.mark.parametrize(
    ("reason", "rule"), [("stop", "plain_text"), ("length", "no_action"), ("content_filter", "no_action")]
)
def test_an_answer_cut_short_is_no_answer(reason: str, rule: str) -> None:
    _, after_agent, _ = make_routers(POLICY)
    assert after_agent.decide({**state(said("There are te", reason)), "iteration_count": 1}).rule == rule


def turn(question: str, **brought: Any) -> tuple[bytes, bytes]:
    """A run of a thread, as the store has it."""
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
    answered = runs_pb2.RunOutput(data_chat=data_chat_pb2.DataChatOutput(answer="So it is.", **brought))
    return asked.SerializeToString(), answered.SerializeToString()


def remembered(*turns: tuple[bytes, bytes]) -> list[str]:
    asked = data_chat_pb2.DataChatInput(question="And?")
    given = begin(asked, Assignment("r", "c", Caller("27"), asked.SerializeToString(), turns), POLICY)
    return [each["question"] for each in given["turns"]]


def test_a_blocked_question_is_no_turn() -> None:
    kept = turn("Mine", grounding=DATA, sql_query="SELECT 1")
    assert remembered(kept, turn("Theirs", grounding=REFUSED)) == ["Mine"]


def test_of_an_earlier_release_only_what_ran_a_query_is_known_to_have_been_let_through() -> None:
    assert remembered(turn("Theirs"), turn("Mine", sql_query="SELECT 1")) == ["Mine"]


def test_blocked_questions_push_no_turn_out_of_the_window() -> None:
    blocked = [turn("Theirs", grounding=REFUSED)] * (POLICY.turns_remembered * 3)
    told = [turn(f"Mine {number}", grounding=NOT_CHECKED) for number in range(POLICY.turns_remembered)]
    assert remembered(*told, *blocked) == [f"Mine {number}" for number in range(POLICY.turns_remembered)]
    assert AGENT.turns_remembered(POLICY) >= len(told) + len(blocked)
