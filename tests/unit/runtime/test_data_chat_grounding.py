"""What an answer rests on: known from what happened, said in words, and never the model's to claim."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from signalbox.v1 import data_chat_pb2, runs_pb2, table_pb2, tools_pb2

from services.kit.identity.caller import Caller
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.data_chat.definition import AGENT, begin, result
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.query_results import (
    NAMES_NOTHING,
    NO_TABLE,
    STATED,
    names_nothing,
    problems_of,
    run_of,
)
from services.runtime.agents.data_chat.routing import make_routers
from services.runtime.agents.data_chat.wording import (
    NO_QUERY,
    NO_RESULT,
    UNFOUNDED,
    grounding_of,
    refused_question,
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
        (state(said("I answer questions.")), NOT_CHECKED, f"{NO_QUERY} I answer questions."),
        (state(said(INVENTED)), NOT_CHECKED, f"{NO_QUERY} {UNFOUNDED}"),
        (state(said("I can't answer this.")), UNANSWERABLE, f"{NO_QUERY} I can't answer this."),
        (state(said("Sorry, but I cannot tell.")), UNANSWERABLE, f"{NO_QUERY} Sorry, but I cannot tell."),
        (state(said("UNANSWERABLE: no such table")), UNANSWERABLE, f"{NO_QUERY} no such table"),
        (
            state(*FAILED_QUERY, said(INVENTED), **FAILED),
            UNANSWERABLE,
            f"{NO_RESULT} {UNFOUNDED} The last attempt failed",
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


SHOWN = HumanMessage("tables: devices, ships; the sensors below 20% battery")


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("Do you mean the last 7 days, or the last 30?", True),
        ("I can't tell who was captain of the Dawn Plover in 2023.", True),
        ("I can't tell who. Ask your HR department.", True),
        ("Only Devices and Ships can be asked about.", True),
        ("The answer is 20. Shall I list them?", False),
        ("I can't tell. It may be 20.", False),
        ("It was captain number 2023.", False),
        ("The captain of the Dawn Plover is John Smith.", False),
        ("Is it open at http://pay.example?", False),
        ('<data> {"question": "How many?"} </data>', False),
    ],
)
def test_what_is_said_without_a_result_states_nothing_that_nobody_gave(text: str, is_told: bool) -> None:
    asked = {"question": "Who was captain of the Dawn Plover in 2023?", "messages": [SHOWN, said(text)]}
    assert without_result(asked)["answer"] == f"{NO_QUERY} {text if is_told else UNFOUNDED}"


def output(ended: dict[str, Any]) -> data_chat_pb2.DataChatOutput:
    return result(ended, data_chat_pb2.DataChatInput(question="How many?"))


def test_rows_are_what_an_answer_rests_on_and_are_shown_without_a_wording() -> None:
    ended = state(rows=b"", result_text="devices\n13\n(1 row)", sql_query="SELECT 13")
    assert grounding_of(ended) == DATA
    assert "devices\n13" in output(ended).answer
    assert output({**ended, "answer": "Thirteen."}).answer == "Thirteen."


def table(**columns: list[Any]) -> table_pb2.Table:
    """A table of columns, each with its values."""
    kinds = {int: ("COLUMN_TYPE_INT", "int_value"), float: ("COLUMN_TYPE_DOUBLE", "double_value")}
    of = {name: kinds.get(type(values[0]), ("COLUMN_TYPE_TEXT", "text_value")) for name, values in columns.items()}
    rows = zip(*columns.values(), strict=True)
    cells = [[table_pb2.Cell(**{of[name][1]: v}) for name, v in zip(columns, row, strict=True)] for row in rows]
    return table_pb2.Table(
        columns=[table_pb2.Column(name=name, type=of[name][0]) for name in columns],
        rows=[table_pb2.Row(values=row) for row in cells],
    )


def brought(question: str = "How many?", **output: Any) -> dict[str, Any]:
    """The state after a query."""
    return state(**run_of(tools_pb2.ToolOutput(**output), question))


@pytest.mark.parametrize("wording", ["The number of readings is 10.", ""])
@pytest.mark.parametrize(
    ("output_", "question", "doubt"),
    [
        ({"reads_tables": False}, "How many?", NO_TABLE),
        ({"reads_tables": True, "stated_columns": ["n"], "table": table(n=[4711])}, "How many?", f"{STATED} (n)."),
        ({"reads_tables": True, "table": table(temperature=[41.9])}, "Which device is the hottest?", NAMES_NOTHING),
    ],
)
def test_what_nothing_vouches_for_is_no_answer_from_data(
    wording: str, output_: dict[str, Any], question: str, doubt: str
) -> None:
    ended = brought(question, text="readings\n10", sql_query="SELECT", **output_)
    update = with_result(ended, wording)
    assert update["answer"].startswith(f"{doubt} ")
    assert "10" in update["answer"].removeprefix(doubt)
    assert (update["status"], update["grounding"]) == (NEEDS_REVIEW, NOT_CHECKED)
    assert output(ended).answer.startswith(doubt)  # also of a run that ended before it was worded


@pytest.mark.parametrize("result", [tools_pb2.ToolOutput(reads_tables=True), tools_pb2.ToolOutput()])
def test_an_executor_that_does_not_say_counts_as_before(result: tools_pb2.ToolOutput) -> None:
    """Of the last release: while it serves beside this one, its answers are not all left to a person."""
    ended = state(**run_of(result, "How many?"))
    update = with_result(ended, "Thirteen.")
    assert (update["answer"], update["status"]) == ("Thirteen.", COMPLETED)
    assert output(ended).grounding == DATA


@pytest.mark.parametrize(
    ("question", "found", "sql", "nothing"),
    [
        ("Which device has the highest temperature?", table(max=[41.9]), "SELECT max(t) FROM device_x", True),
        ("Welches Gerät ist am heißesten?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("¿Cuál es el dispositivo más caliente?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("¿Cuál es el barco con la temperatura más alta?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("¿Qué dispositivo tiene la mayor humedad?", table(max=[41.9]), "SELECT max(humidity) FROM r", True),
        ("Welches ist das wärmste Gerät?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("Which is the ship with the highest pressure?", table(max=[41.9]), "SELECT max(pressure) FROM r", True),
        ("What device has the highest temperature?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("Name the device with the highest value.", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("When was it hottest?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("Wann war es am heißesten?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("Where is the hottest?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("¿Dónde está?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("What is the name of the hottest device?", table(max=[41.9]), "SELECT max(temperature) FROM r", True),
        ("What share is open?", table(share=[0.4]), "SELECT avg(x) FROM r", False),
        ("What temperature was the highest?", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
        ("What was the total when it was hot?", table(sum=[41.9]), "SELECT sum(x) FROM r", False),
        ("When was it hottest?", table(extract=[12]), "SELECT extract(hour FROM t) FROM r", False),
        ("Where is the ship?", table(lat=[41.9], lon=[4.1]), "SELECT lat, lon FROM r", False),
        ("Name the highest temperature.", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
        ("Name the most recent temperature.", table(t=[41.9]), "SELECT temperature FROM r", False),
        ("What about the average?", table(avg=[41.9]), "SELECT avg(x) FROM r", False),
        ("Who used the most?", table(sum=[41.9]), "SELECT sum(x) FROM r", True),
        ("Which customer had the highest cost?", table(max=[41.9]), "SELECT max(cost) FROM r", True),
        ("Which product sold best?", table(max=[41.9]), "SELECT max(period) FROM r", True),
        ("¿Cuál es el precio más alto?", table(max=[41.9]), "SELECT max(price) FROM r", False),
        ("Which device is the hottest?", table(name=["Albatros"], max=[41.9]), "SELECT name, max(t) FROM r", False),
        ("Which device is the hottest?", table(device_id=[7], max=[41.9]), "SELECT device_id, max(t) FROM r", False),
        ("Welche Temperatur hat Albatros?", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
        ("¿Cuál es la temperatura media de todos?", table(avg=[11.2]), "SELECT avg(temperature) FROM r", False),
        ("¿Cuál es la presión máxima?", table(max=[41.9]), "SELECT max(pressure) FROM r", False),
        ("¿Cuál fue la humedad mínima en 2025?", table(min=[41.9]), "SELECT min(humidity) FROM r", False),
        ("Welches ist die höchste Temperatur?", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
        ("Which is the highest temperature of my devices?", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
        ("Which temperature is the highest?", table(temperature=[41.9]), "SELECT temperature FROM r", False),
        ("Which year had most?", table(year=[2025]), "SELECT extract(year FROM t) AS year FROM r", False),
        ("How many devices are there?", table(count=[13]), "SELECT count(*) FROM r", False),
        ("What is the highest temperature?", table(max=[41.9]), "SELECT max(temperature) FROM r", False),
    ],
)  # fmt: skip
def test_a_question_which_is_not_answered_by_how_much(
    question: str, found: table_pb2.Table, sql: str, nothing: bool
) -> None:
    assert names_nothing(question, found, sql) is nothing


@pytest.mark.parametrize(
    "wording",
    ["You have no devices.", "You have none.", "You have 1 device.", "You have one device.", "You have 13k devices.",
     "Keine.", "Ninguno.", "You have a dozen devices.", "You have thirteen hundred devices.",
     "Almost all of them.", "Both.", "A handful of devices.", "Not 13 devices.", "13 %"],
)  # fmt: skip
def test_a_number_that_is_all_that_was_found_is_said(wording: str) -> None:
    run = run_of(tools_pb2.ToolOutput(table=table(count=[13])), "How many devices do I have?")
    assert problems_of(wording, "How many devices do I have?", [run])


@pytest.mark.parametrize(
    ("found", "wording"),
    [
        (13, "13"), (13, "You have thirteen devices."), (13, "Es sind dreizehn."), (13, "Tienes 13 dispositivos."),
        (0, "You have none."), (0, "Keine."), (1, "You have a single device."), (41.87, "It is 41.9 degrees."),
        (12873, "About 12.9k readings."),
        # No amount is no wrong one; the rows are there.
        (13, "Some."), (13, "U heeft dertien apparaten."),
    ],
)  # fmt: skip
def test_a_number_is_said_in_many_ways(found: float, wording: str) -> None:
    run = run_of(tools_pb2.ToolOutput(table=table(count=[found])), "How many?")
    assert not problems_of(wording, "How many?", [run])


@pytest.mark.parametrize(
    ("question", "found", "wording", "is_said"),
    [
        ("Do we really have 42 customers?", 42, "Yes, there are 42 customers.", True),
        ("Do we really have 42 customers?", 42, "Yes, forty-two.", True),
        ("Do we really have 42 customers?", 41, "No, there are 41 and not 42.", True),
        ("Do we really have 42 customers?", 41, "Yes, there are 42 customers.", False),
        ("Do we really have 42 customers?", 42, "No, there are none.", False),
        ("How many of the 7 ships are at sea?", 5, "All 7 ships.", False),
        ("How many of the 7 ships are at sea?", 5, "5 of the 7 ships.", True),
    ],
)
def test_a_number_that_was_found_is_said_whatever_the_question_holds(
    question: str, found: int, wording: str, is_said: bool
) -> None:
    run = run_of(tools_pb2.ToolOutput(table=table(count=[found])), question)
    assert bool(problems_of(wording, question, [run])) is not is_said


def test_an_answer_to_which_names_one_that_was_found() -> None:
    run = run_of(tools_pb2.ToolOutput(table=table(name=["Albatros"], max=[41.9])), "Which is the hottest?")
    assert not problems_of("Albatros, at 41.9.", "Which is the hottest?", [run])
    assert problems_of("Die heißeste ist Nordwind mit 41,9.", "Which is the hottest?", [run])
    assert problems_of("It is at 41.9 degrees.", "Which is the hottest?", [run])


def test_what_a_query_states_vouches_for_no_words() -> None:
    run = run_of(
        tools_pb2.ToolOutput(
            reads_tables=True, stated_columns=["n"], table=table(name=["Albatros"], n=[4711]), text="Albatros | 4711"
        ),
        "How many?",
    )
    assert not problems_of("Albatros.", "How many?", [run])
    assert problems_of("Albatros has 4711.", "How many?", [run])
    update = with_result(state(**run), unsupported=True)
    assert update["answer"].startswith(f"{STATED} (n).")
    assert (update["status"], update["grounding"]) == (NEEDS_REVIEW, NOT_CHECKED)


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


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("other_user", "belongs to somebody else"),
        ("restricted_table", "a table that is not open"),
        ("caller_change", "with other rights"),
        ("model_blocked", "something other than to read your own data"),
        ("of_a_later_release", "something other than to read your own data"),
    ],
)
def test_a_refusal_says_what_it_is_for(reason: str, said: str) -> None:
    assert said in refused_question(reason)
