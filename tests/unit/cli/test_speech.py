"""What models say while they say it, as a terminal shows it and as a pipe gets it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from signalbox.v1 import runs_pb2

from services.cli.progress import Spinner, progress_on
from services.cli.speech import Speech
from services.cli.terminal import Terminal

RERUN, WITHDRAWN = runs_pb2.TOKENS_RESET_CAUSE_RERUN, runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN


def chunk(text: str, offset: int = 0, message: str = "m", node: str = "speak") -> runs_pb2.RunEvent:
    told = runs_pb2.TokenChunk(node=node, message_id=message, offset=offset, text=text)
    return runs_pb2.RunEvent(token_chunk=told)


def reset(cause: runs_pb2.TokensResetCause, node: str = "") -> runs_pb2.RunEvent:
    return runs_pb2.RunEvent(tokens_reset=runs_pb2.TokensReset(node=node, cause=cause))


def test_chunks_make_messages_until_their_node_has_ended() -> None:
    speech = Speech()
    for event in (chunk("Good "), chunk("day.", 5), chunk("Yes.", message="n", node="graph/judge")):
        speech.take(event)
    assert speech.text == "speak: Good day.\ngraph/judge: Yes."
    speech.take(runs_pb2.RunEvent(sequence=3, node_completed=runs_pb2.NodeCompleted(node="graph")))
    assert speech.text == "Good day."
    speech.take(reset(WITHDRAWN, "speak"))
    assert speech.text == ""


def test_what_was_left_out_is_seen() -> None:
    speech = Speech()
    for event in (chunk("a"), reset(runs_pb2.TOKENS_RESET_CAUSE_DROPPED), chunk("z", 9)):
        speech.take(event)
    assert speech.text == "a … z"


def test_what_is_told_once_more_is_shown_once() -> None:
    speech = Speech()
    assert [speech.take(event) for event in (chunk("Good "), chunk("Good d"), chunk("ay.", 6))] == ["Good ", "d", "ay."]
    assert speech.text == "Good day."


def test_nothing_that_a_model_says_steers_the_terminal() -> None:
    shown = io.StringIO()
    with Spinner(Console(file=shown, force_terminal=True, width=60, height=8)) as spinner:
        spinner.event(chunk("\x1b]0;owned\x07" + "line\n" * 50 + "last"))
    assert "\x1b]0;" not in shown.getvalue()
    assert "last" in shown.getvalue()


def test_a_pipe_gets_each_message_on_lines_of_its_own() -> None:
    said, remarks = io.StringIO(), io.StringIO()
    with progress_on(Console(file=remarks, width=100), say=said.write) as progress:
        for event in (chunk("Good "), reset(RERUN), chunk("Good ", message="n"), chunk("day.", 5, "n")):
            progress.event(event)
    assert said.getvalue() == "Good \nGood day.\n"
    assert "no longer stands" in remarks.getvalue()


@pytest.mark.parametrize(
    ("wanted", "as_json", "on_terminal", "asked"),
    [
        (None, False, True, True),
        (None, False, False, False),
        (True, False, False, True),
        (False, False, True, False),
        (True, True, True, False),
    ],
)
def test_models_stream_for_a_terminal_or_where_it_was_asked_for(
    wanted: bool | None, as_json: bool, on_terminal: bool, asked: bool
) -> None:
    terminal = Terminal(*(Console(file=io.StringIO(), force_terminal=on_terminal) for _ in range(2)))
    chunks, say = terminal.streaming(wanted, as_json=as_json)
    assert (chunks, say is not None) == (asked, asked and not on_terminal)


def test_what_is_still_being_said_is_no_part_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    _, say = Terminal(*(Console(file=io.StringIO()) for _ in range(2))).streaming(True, as_json=False)
    assert say is not None
    say("Good day.")
    assert tuple(capsys.readouterr()) == ("", "Good day.")
