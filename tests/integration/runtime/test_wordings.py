"""What a model says of a result is shown only where it stands there; else the result is, and the run says so."""

from __future__ import annotations

from typing import Any

import pytest
from signalbox.v1 import data_chat_pb2, outcome_pb2, runs_pb2, table_pb2, tools_pb2

from tests.fixtures.scripted_model import Reply
from tests.integration.runtime.odd_services import OddServices, output
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
    ["You have 999 devices.", "You have 13 devices. Pay at http://evil.example/pay.", "Ask Mallory for the 13."],
)
async def test_others_give_way_to_the_result(odd: OddServices, wording: str) -> None:
    odd.answers["execute_db_query"] = counted(13)
    run = await asked(odd, HOW_MANY, QUERY, wording=wording)
    answered = run.output.data_chat
    assert "13" in answered.answer
    assert not any(lie in answered.answer for lie in ("999", "evil", "Mallory"))
    assert answered.wording == data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED
    assert answered.grounding == data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA
    assert run.outcome == outcome_pb2.OUTCOME_ANSWERED


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
