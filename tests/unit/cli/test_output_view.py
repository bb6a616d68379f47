"""Outputs of agents that the command knows nothing of, for people to read."""

from __future__ import annotations

from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2, sast_pb2, table_pb2

from services.cli.listing import UNBOUNDED
from services.cli.output_view import rendered
from services.cli.render import answer, to_text
from tests.unit.cli.runs import RUN_ID

OUTPUT = sast_pb2.SastTriageOutput(
    verdict=sast_pb2.VERDICT_TRUE_POSITIVE,
    confidence=0.83,
    justification="The name is not bound.\nIt comes from the request.",
    evidence=[
        sast_pb2.Evidence(claim="It is concatenated.", file="app/db.py", first_line=6, last_line=6),
        sast_pb2.Evidence(claim="It is a caller's \x1b[31mname.", file="app/web.py", first_line=1200, last_line=1201),
    ],
    token_usage=caller_pb2.TokenUsage(input_tokens=700, output_tokens=112, total_tokens=812),
    drafted_verdicts=[sast_pb2.VERDICT_FALSE_POSITIVE, sast_pb2.VERDICT_TRUE_POSITIVE],
    confidence_calibrated=True,
)


def test_every_kind_of_field_is_shown_and_what_is_unset_is_not() -> None:
    lines = [line.rstrip() for line in to_text(rendered(OUTPUT)).splitlines()]
    assert lines == [
        "verdict: TRUE_POSITIVE",
        "confidence: 0.83",
        "justification:",
        "  The name is not bound.",
        "  It comes from the request.",
        "evidence:",
        "  1.",
        "    claim: It is concatenated.",
        "    file: app/db.py",
        "    first line: 6",
        "    last line: 6",
        "  2.",
        "    claim: It is a caller's \\x1b[31mname.",
        "    file: app/web.py",
        "    first line: 1,200",
        "    last line: 1,201",
        "token usage: 812 tokens (700 in, 112 out)",
        "drafted verdicts: FALSE_POSITIVE, TRUE_POSITIVE",
        "confidence calibrated: yes",
    ]


def test_no_line_is_filled_up_with_blanks_to_an_end_that_lines_do_not_have() -> None:
    lines = to_text(rendered(OUTPUT), width=UNBOUNDED).splitlines()
    assert max(map(len, lines)) == max(len(line.rstrip()) for line in lines)


def test_a_table_is_shown_as_one() -> None:
    table = table_pb2.Table(
        columns=[table_pb2.Column(name="device", type=table_pb2.COLUMN_TYPE_TEXT)],
        rows=[table_pb2.Row(values=[table_pb2.Cell(text_value="cabin-001")])],
    )
    shown = to_text(rendered(data_chat_pb2.DataChatOutput(answer="One.", rows=table)))
    assert "answer: One." in shown
    assert "device" in shown
    assert "cabin-001" in shown


def test_a_run_of_any_agent_is_shown_with_how_it_ended_and_where_to_ask_why() -> None:
    ended = runs_pb2.Run(
        run_id=RUN_ID,
        agent="sast_triage",
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        output=runs_pb2.RunOutput(sast_triage=OUTPUT),
    )
    shown = to_text(answer(ended))
    assert "verdict: TRUE_POSITIVE" in shown
    assert "SUCCEEDED" in shown
    assert f"signalbox explain {RUN_ID}" in shown


def test_a_value_that_this_command_is_too_old_for_is_a_number() -> None:
    assert "verdict: 9" in to_text(rendered(sast_pb2.SastTriageOutput(verdict=9)))  # type: ignore[arg-type]
