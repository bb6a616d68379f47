"""Answers to questions of a run: each to its interrupt, and what can't be sent refused."""

from __future__ import annotations

import pytest
from signalbox.v1 import runs_pb2

from services.cli.errors import CliError
from services.cli.questions import answers_by_id

ASKED = runs_pb2.InputRequest(
    interrupts=[runs_pb2.Interrupt(interrupt_id="first"), runs_pb2.Interrupt(interrupt_id="second")]
)


@pytest.mark.parametrize("text", ['"\\ud800"', "\udcff", '{"a":' * 300 + "1" + "}" * 300, "[" * 20_000])
def test_what_can_not_be_sent_is_refused(text: str) -> None:
    with pytest.raises(CliError, match="first can't be sent"):
        answers_by_id(ASKED, [f"first={text}"])


def test_no_answer_at_all_is_said_so() -> None:
    with pytest.raises(CliError, match="no answer was given"):
        answers_by_id(ASKED, [])


def test_each_answer_is_for_its_interrupt() -> None:
    found = answers_by_id(ASKED, ["first={}", "second=yes please"])
    assert (found["first"].WhichOneof("kind"), found["second"].string_value) == ("struct_value", "yes please")
