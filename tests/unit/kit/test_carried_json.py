"""JSON that no message carries as it is, is refused, wherever it comes in."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from services.cli.batch_inputs import read_inputs
from services.cli.errors import CliError
from services.cli.run import Assignment
from services.kit.wire.carried_json import DEEPEST, EXACT, NotCarriedError, check_carried


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = {"a": value} if number % 2 else [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nested(DEEPEST + 1), "nested deeper than 28 levels"),
        ({"n": [EXACT + 1]}, "send it as text"),
        (float("nan"), "too large to be sent"),
        (float("inf"), "too large to be sent"),
        (10**400, "too large to be sent"),
        ({"\ud800": 1}, "half a pair of surrogates"),
        ([{"a": "\udfff"}], "half a pair of surrogates"),
        ({1: "a"}, "the name 1, which is no text"),
        ({"a": datetime.date(2026, 1, 1)}, "which JSON does not have"),
        ({"a": b"x"}, "which JSON does not have"),
    ],
)  # fmt: skip
def test_what_would_not_arrive_as_it_is_is_refused(value: Any, words: str) -> None:
    with pytest.raises(NotCarriedError, match=words):
        check_carried(value)


def test_what_arrives_as_it_is_is_not() -> None:
    check_carried({"a": [nested(DEEPEST - 2), None, True, 1, -2.5, EXACT, "é\u0000"], "": {}})


@pytest.mark.parametrize(
    "text", ['{"n": 9007199254740993}', '{"n": 99999999999999999999999}', '{"a":' * 40 + "1" + "}" * 40]
)
def test_a_graph_is_given_no_other_value_than_its_file_has(tmp_path: Path, text: str) -> None:
    file = tmp_path / "input.json"
    file.write_text(text)
    for read in (Assignment("support", file).request, lambda: read_inputs("support", file)):
        with pytest.raises(CliError, match="can't be sent"):
            read()
