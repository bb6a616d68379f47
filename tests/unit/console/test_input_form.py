"""Forms of an agent's input: a field holds a value as it is, and gives back what it was made from."""

from __future__ import annotations

from typing import Any

import pytest

from services.console.input_form import fields_of, input_of

SCHEMA: dict[str, Any] = {
    "$defs": {"Said": {"title": "Message"}},
    "properties": {
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "level": {"enum": [1, 2, "high"]},
        "talk": {"type": "array", "items": {"$ref": "#/$defs/Said"}},
    },
}


@pytest.mark.parametrize(
    "values",
    [
        {"number": 1234567},
        {"number": 0.1234567891},
        {"flag": False},
        {"flag": True},
        {"level": 2},
        {"level": "high"},
        {"talk": [{"role": "user", "content": "Hi"}]},
        {"talk": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
        {"talk": [{"role": "system", "content": "Be kind."}]},
        {"talk": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        {},
    ],
)
def test_what_a_form_was_filled_with_is_what_it_holds(values: dict[str, Any]) -> None:
    fields = fields_of(SCHEMA, values)
    assert input_of(fields, {each.name: each.value for each in fields}) == (values, {})


def test_a_value_of_another_kind_is_shown_and_told() -> None:
    fields = fields_of(SCHEMA, {"number": "many"})
    assert fields[0].value == "many"
    assert input_of(fields, {"input.number": "many"}) == ({}, {"input.number": "not a number"})


def test_messages_are_known_by_what_their_items_refer_to() -> None:
    assert [each.kind for each in fields_of(SCHEMA, {}) if each.path == ("talk",)] == ["message"]


def test_a_required_flag_can_be_false() -> None:
    [flag] = fields_of({"properties": {"flag": {"type": "boolean"}}, "required": ["flag"]}, {})
    assert (flag.is_required, input_of([flag], {"input.flag": "no"})) == (True, ({"flag": False}, {}))
