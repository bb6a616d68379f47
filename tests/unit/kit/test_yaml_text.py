"""YAML that people write: what is wrong with it is YAML's own error, which names the line."""

from __future__ import annotations

import pytest
import yaml

from services.kit.text.yaml_text import parse_yaml


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2026-02-30", "day is out of range for month"),
        ("2026-01-01T00:00:00+99:99", "offset"),
        ("1" * 5000, "4300 digits"),
        ("!!int ''", "not a valid value"),
        ("!!bool maybe", "maybe"),
        ("!!timestamp today", "not a valid value"),
        ("!!float many", "many"),
        ("{b: 1, b: 2}", "the key 'b' is given twice"),
        ("{null: 1, ~: 2}", "the key None is given twice"),
        ("{[1]: 2}", "unhashable key"),
        ("!!python/object:os.system x", "could not determine a constructor"),
        ("*nothing", "undefined alias"),
        ("\x00", "special characters are not allowed"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(value: str, words: str) -> None:
    with pytest.raises(yaml.YAMLError, match=words) as refused:
        parse_yaml(f"first: 1\na: {value}\n")
    assert "\x00" in value or (str(refused.value).startswith("line 2, column ") and "\n" not in str(refused.value))


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="nested too deep"):
        parse_yaml("[" * 20_000)


def test_a_mapping_may_override_what_it_takes_from_another() -> None:
    document = parse_yaml("a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, *a], z: 3}\n")
    assert document == {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 2, "z": 3}}


def test_an_empty_document_says_nothing() -> None:
    assert parse_yaml("") is None
