"""JSON is read as it is written."""

from __future__ import annotations

import json

import pytest

from services.kit.text.exact_json import exact_json


@pytest.mark.parametrize("number", ["18446744073709551616", "-99999999999999999999999", "1.5", "1e30", "7"])
def test_numbers_are_those_that_are_written(number: str) -> None:
    [read] = exact_json(f"[{number}]".encode())
    assert (type(read), read) == (type(json.loads(number)), json.loads(number))


@pytest.mark.parametrize("text", ["[NaN]", "[1e999]", '"\\ud800"', "[" * 5000, "[1] [2]", "9" * 400, ""])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        exact_json(text)


def test_of_names_given_twice_one_wins_unless_they_are_to_be_unique() -> None:
    text = '{"a": {"b": 1, "c": 2, "b": 3}}'
    assert exact_json(text) == {"a": {"b": 3, "c": 2}}
    with pytest.raises(ValueError, match="'b' is given twice"):
        exact_json(text, unique=True)


def test_of_many_names_the_one_given_twice_is_told() -> None:
    # What compares each with all others takes minutes.
    many = ",".join(f'"{at}": 1' for at in [*range(100_000), 99_999])
    with pytest.raises(ValueError, match="'99999' is given twice"):
        exact_json(f"{{{many}}}", unique=True)
