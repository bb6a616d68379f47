"""JSON on standard output: the same value, and nothing in it that a terminal obeys or does not show."""

from __future__ import annotations

import json

import pytest

from services.cli.terminal import Terminal

HOSTILE = "\x00\x1b]0;x\x07\x7f\x9b2J \u200b\u202etxt \u2066\ufeff\u2028\xad\u061c \U000e0041 \ud800"


@pytest.mark.parametrize("text", [HOSTILE, "Z\u00fcrich \u5f20 \U0001f600", "plain\nlines\t"])
def test_a_value_is_the_same_and_nothing_invisible_is_printed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().json_value({"said": [text], text: 1})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"said": [text], text: 1}
    assert printed.replace("\n", "").isprintable()


def test_what_can_be_seen_stays(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().json_value("Z\u00fcrich \u5f20 \U0001f600")
    assert capsys.readouterr().out == '"Z\u00fcrich \u5f20 \U0001f600"\n'
