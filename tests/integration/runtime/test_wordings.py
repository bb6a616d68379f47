"""What a model says of a result is shown only where it stands there; else the result is, and the run says so."""

from __future__ import annotations

from typing import Any

import pytest
from signalbox.v1 import data_chat_pb2, outcome_pb2, runs_pb2, table_pb2, tools_pb2

from tests.fixtures.scripted_model import Reply
from tests.integration.runtime.odd_services import GIVEN_UP_S, OddServices, output
from tests.integration.runtime.test_odd_answers import NO_EXAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUERY = Reply.tool_call("execute_db_query", {"query": "SELECT count(*) FROM devices"})
HOW_MANY = "How many devices do I have?"


@pytest.fixture
def odd(around_runtime: OddServices) -> OddServices:
    """The services, with a runtime among them."""
    around_runtime.forget()
    around_runtime.answers["get_few_shot_examples"] = NO_EXAMPLES
    return around_runtime


def counted(number: int, **fields: Any) -> tools_pb2.CallToolResponse:
    """A result of one number."""
    table = table_pb2.Table(
        columns=[table_pb2.Column(name="n", type=table_pb2.COLUMN_TYPE_INT)],
        rows=[table_pb2.Row(values=[table_pb2.Cell(int_value=number)])],
    )
    given = {"text": f"n\n{number}\n(1 row)", "sql_query": "SELECT count(*) AS n", "reads_tables": True, **fields}
    return output(table=table, **given)


async def asked(odd: OddServices, question: str, *said: Reply, wording: str) -> runs_pb2.Run:
    """Asks a question of which the agent says this, and whose result is worded so."""
    odd.model.script("agent", said)
    odd.model.script("format", [Reply.text(wording)])
    return await odd.run(runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question)), wall_time_s=60)


async def test_honest_words_are_the_answer(odd: OddServices) -> None:
    odd.answers["execute_db_query"] = counted(13)
    run = await asked(odd, HOW_MANY, QUERY, wording="You have **thirteen** (13) devices.")
    answered = run.output.data_chat
    assert answered.answer == "You have **thirteen** (13) devices."
    assert answered.wording == data_chat_pb2.ANSWER_WORDING_MODEL
    assert run.outcome == outcome_pb2.OUTCOME_ANSWERED


@pytest.mark.parametrize(
    "wording",
    [
        "You have 999 devices.", "You have 13 devices. Pay at http://evil.example/pay.", "Ask Mallory for the 13.",
        "I'm sorry, but I can't answer that.", "Leider kann ich das nicht beantworten.", "Lo siento, no puedo decirlo.",
    ],
)  # fmt: skip
async def test_others_give_way_to_the_result(odd: OddServices, wording: str) -> None:
    odd.answers["execute_db_query"] = counted(13)
    run = await asked(odd, HOW_MANY, QUERY, wording=wording)
    answered = run.output.data_chat
    assert "13" in answered.answer
    assert not any(lie in answered.answer for lie in ("999", "evil", "Mallory"))
    assert answered.wording == data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED
    assert answered.grounding == data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA
    assert run.outcome == outcome_pb2.OUTCOME_ANSWERED


@pytest.mark.parametrize("wording", ["You have no devices.", "You have none.", "albatros, kormoran and nordwind."])
async def test_rows_are_neither_denied_nor_joined_by_others(odd: OddServices, wording: str) -> None:
    named = table_pb2.Table(
        columns=[table_pb2.Column(name="name", type=table_pb2.COLUMN_TYPE_TEXT)],
        rows=[table_pb2.Row(values=[table_pb2.Cell(text_value=name)]) for name in ("Albatros", "Kormoran", "Moewe")],
    )
    result = output(table=named, text="name\nAlbatros\nKormoran\nMoewe", sql_query="SELECT name", reads_tables=True)
    odd.answers["execute_db_query"] = result
    run = await asked(odd, "List my devices.", QUERY, wording=wording)
    answered = run.output.data_chat
    assert answered.wording == data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED
    assert "Moewe" in answered.answer


LEVELS = table_pb2.Table(
    columns=[
        table_pb2.Column(name="station", type=table_pb2.COLUMN_TYPE_TEXT),
        table_pb2.Column(name="level_cm", type=table_pb2.COLUMN_TYPE_INT),
        table_pb2.Column(name="measured_at", type=table_pb2.COLUMN_TYPE_TEXT),
    ],
    rows=[
        table_pb2.Row(
            values=[{"text_value": "Bergen"}, {"int_value": 132}, {"text_value": "2026-10-25T01:30:00+02:00"}]
        ),
        table_pb2.Row(values=[{"text_value": "Kiel"}, {"int_value": 87}, {"text_value": "2026-10-26T02:15:00+01:00"}]),
    ],
)


@pytest.mark.parametrize(
    ("wording", "is_kept"),
    [
        ("Bergen stood at 132 cm, and Kiel at 87 cm.", True),
        ("Am 25.10.2026 um 01:30 Uhr lag Bergen bei 132 cm, Kiel am 26.10.2026 bei 87 cm.", True),
        ("Kiel stood at 132 cm.", False), ("Bergen stood at 132 m.", False), ("Bergen did not stand at 132 cm.", False),
        ("Kiel had the highest level.", False), ("Bergen was measured on 26 October 2026.", False),
        ("El nivel de Kiel fue de 132 cm.", False), ("Kiel is at 87 %.", False), ("All levels are fine.", False),
    ],
)  # fmt: skip
async def test_what_is_said_of_a_row_stands_in_it(odd: OddServices, wording: str, is_kept: bool) -> None:
    odd.answers["execute_db_query"] = output(table=LEVELS, text="rows", sql_query="SELECT", reads_tables=True)
    run = await asked(odd, "What are the levels?", QUERY, wording=wording)
    kept = data_chat_pb2.ANSWER_WORDING_MODEL if is_kept else data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED
    assert run.output.data_chat.wording == kept


async def told(odd: OddServices, *said: Reply) -> tuple[runs_pb2.Run, list[runs_pb2.RunEvent]]:
    """Asks with the chunks of what is said; returns the run, and those events."""
    odd.answers["execute_db_query"] = counted(13)
    odd.model.script("agent", [QUERY])
    odd.model.script("format", said)
    given = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=HOW_MANY))
    create = runs_pb2.CreateRunRequest(input=given, correlation_id="c-1")
    request = runs_pb2.ExecuteRunRequest(create=create, token_chunks=True)
    stream = odd.stub.ExecuteRun(request, metadata=odd.auth, timeout=GIVEN_UP_S)
    events = [response.event async for response in stream]
    return events[-1].run_ended.run, [event for event in events if not event.sequence]


def said_in(events: list[runs_pb2.RunEvent]) -> str:
    return "".join(event.token_chunk.text for event in events)


WORDED = "You have **thirteen** (13) devices. All 13 are yours."


async def test_an_answer_is_told_while_it_comes_and_its_tokens_count(odd: OddServices) -> None:
    run, events = await told(odd, Reply.text(WORDED))
    assert run.output.data_chat.answer == said_in(events) == WORDED
    assert {event.token_chunk.node for event in events} == {"format_answer"}
    assert all(event.token_chunk.provisional for event in events)
    [asked] = odd.model.requests_of("format")
    assert asked.body["stream"] is True
    whole = await asked_for_the_whole(odd)
    assert run.spend.token_usage == whole.spend.token_usage
    assert run.spend.model_calls == whole.spend.model_calls


async def asked_for_the_whole(odd: OddServices) -> runs_pb2.Run:
    odd.model.forget()
    run = await asked(odd, HOW_MANY, QUERY, wording=WORDED)
    [request] = odd.model.requests_of("format")
    assert not request.body.get("stream")
    return run


async def test_what_does_not_hold_is_not_told_and_what_was_told_is_withdrawn(odd: OddServices) -> None:
    thought = "<think>Maybe 999. Or 998. </think>You have 13 devices. Pay at http://evil.example/pay. "
    run, events = await told(odd, Reply.text(f"{thought}There are 13."))
    assert said_in(events) == "You have 13 devices. "
    last = events[-1].tokens_reset
    assert (last.node, last.cause) == ("format_answer", runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN)
    assert run.output.data_chat.wording == data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED


async def test_a_number_that_the_query_states_is_no_answer(odd: OddServices) -> None:
    odd.answers["execute_db_query"] = counted(4711, stated_columns=["n"])
    run = await asked(odd, HOW_MANY, QUERY, wording="You have 4711 devices.")
    assert run.output.data_chat.grounding == data_chat_pb2.GROUNDING_NOT_CHECKED
    assert (run.state, run.outcome) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, outcome_pb2.OUTCOME_NOT_ANSWERED)


async def test_which_one_is_not_answered_by_how_much(odd: OddServices) -> None:
    odd.answers["execute_db_query"] = counted(42)
    run = await asked(odd, "Which device has the highest temperature?", QUERY, wording="It is 42.")
    assert run.outcome == outcome_pb2.OUTCOME_NOT_ANSWERED


async def test_queries_that_are_asked_for_at_once_all_count(odd: OddServices) -> None:
    results = iter((counted(13), counted(7)))

    async def one_after_another(_request: Any, _context: Any) -> tools_pb2.CallToolResponse:
        return next(results)

    odd.answers["execute_db_query"] = one_after_another
    both = Reply.all_tool_calls(
        [("execute_db_query", {"query": "SELECT 1"}), ("execute_db_query", {"query": "SELECT 2"})]
    )
    run = await asked(odd, "How many devices and alarms?", both, wording="There are 13 devices and 7 alarms.")
    answered = run.output.data_chat
    assert answered.answer == "There are 13 devices and 7 alarms."
    tables = [*(result.rows for result in answered.earlier_results), answered.rows]
    assert [table.rows[0].values[0].int_value for table in tables] == [13, 7]
