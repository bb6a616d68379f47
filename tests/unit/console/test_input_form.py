"""Forms of an agent's input: what one was filled with is what it sends, by the page as a browser reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from services.console.forms import MAX_FIELDS
from services.console.input_form import MOST_FIELDS, InputField, as_written, fields_of, input_of
from services.console.showing import page
from services.kit.text.json_text import json_text

SCHEMA: dict[str, Any] = {
    "$defs": {"Said": {"title": "Message"}},
    "properties": {
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "level": {"enum": [1, 2, "high", None]},
        "talk": {"type": "array", "items": {"$ref": "#/$defs/Said"}},
    },
}
WORDS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["a.b", "a", "b", "json", "", "\n x\r\n", "\r", "yes", " 1 ", "\0"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), WORDS
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "human", "assistant"]), "content": WORDS | JSON})
KINDS = st.one_of(
    st.sampled_from(["boolean", "integer", "number", "object"]).map(lambda kind: {"type": kind}),
    st.sampled_from([10, 1000]).map(lambda most: {"type": "string", "maxLength": most}),
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda members: {"enum": members}),
    st.sampled_from(
        [
            {"$ref": "#/$defs/Node"}, {"$ref": "#/definitions/Node"}, {"type": ["string", "null"]}, {},
            {"type": "string", "format": "date-time"}, {"type": "array", "items": {"title": "Message"}},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [{"type": "number"}, {"type": "null"}]},
        ]
    ),
)  # fmt: skip
OBJECTS = st.recursive(
    KINDS,
    lambda inner: st.dictionaries(WORDS, inner, max_size=3).map(lambda named: {"properties": named}),
    max_leaves=8,
)


@st.composite
def schemas_and_values(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draws a schema and an input, some of which fits into it."""

    def fitting(schema: Mapping[str, Any], depth: int = 0) -> Any:
        if schema.get("$ref") == "#/$defs/Node" and depth < 6:
            return fitting(node, depth + 1)
        if named := schema.get("properties"):
            names = draw(st.lists(st.sampled_from(sorted(named)), unique=True))
            return {name: fitting(named[name], depth + 1) for name in names}
        if members := schema.get("enum"):
            return draw(st.sampled_from(members))
        if "items" in schema:
            return draw(st.lists(MESSAGE, max_size=2))
        times = st.just("2026-03-02T09:30:00Z")
        kinds: dict[Any, st.SearchStrategy[Any]] = {
            "boolean": st.booleans(), "integer": st.integers(-(2**53), 2**53), "string": times | WORDS,
        }  # fmt: skip
        return draw(kinds.get(str(schema.get("type")), JSON) | SCALARS)

    node = {"properties": {"next": {"$ref": "#/$defs/Node"}, "named": draw(OBJECTS)}}
    schema = {"$defs": {"Node": node}, "properties": draw(st.dictionaries(WORDS, OBJECTS, min_size=1, max_size=4))}
    others = draw(st.dictionaries(WORDS, JSON, max_size=1))
    return schema, {**others, **fitting(schema)}


class Form(HTMLParser):
    """What a browser would send of the form that starts a run, untouched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sent: dict[str, str] = {}
        self._of = ""
        # A browser drops a new line behind the tag, and so much for those before it sees what stands there.
        self.feed(re.sub(r"(<textarea[^>]*>)\n", r"\1", page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "input" and (found.get("type") != "checkbox" or "checked" in found):
            self._send(found["name"], re.sub(r"[\r\n]", "", found.get("value", "")))
        elif tag in ("textarea", "select"):
            self._of = found["name"]
            self._send(self._of, "")
        elif tag == "option" and "selected" in found:
            self.sent[self._of] = found["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("textarea", "select"):
            self._of = ""

    def handle_data(self, data: str) -> None:
        if self._of and str(self.get_starttag_text()).startswith("<textarea"):
            self.sent[self._of] += data.replace("\r\n", "\n").replace("\r", "\n")

    def _send(self, name: str, text: str) -> None:
        assert name not in self.sent or name in ("agent", "thread"), f"two fields are called {name}"
        self.sent[name] = text.replace("\0", "\ufffd")


def sent_of(fields: list[InputField]) -> dict[str, str]:
    """Returns what the page with these fields sends."""
    told = {"agent": "mine", "thread": "", "labels": "", "record": "", "request_id": "r"}
    shown = page(
        "new.html.j2", "runs",
        agents=["mine"], sent=told, fields=fields, beside=(), problems={}, error=None, is_masked=False,
    )  # fmt: skip
    return Form(bytes(shown.body).decode()).sent


def again(schema: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns what a form filled with values holds once it was sent, and what is wrong with it."""
    sent = sent_of(fields_of(schema, values))
    assert len(sent) <= MAX_FIELDS
    return input_of(as_written(fields_of(schema, {}), sent), sent)


@given(schemas_and_values())
def test_what_a_form_was_filled_with_is_what_it_sends(drawn: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, values = drawn
    struct = Struct()
    struct.update(values)
    # As the platform tells it.
    values = MessageToDict(struct)
    held, problems = again(schema, values)
    assert (json_text(held), problems) == (json_text(values), {})


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({"number": 1234567}, "number"),
        ({"number": 0.1234567891}, "number"),
        ({"number": 2**63}, "number"),
        ({"number": "many"}, "json"),
        ({"flag": False}, "choice"),
        ({"flag": 1}, "json"),
        ({"level": 2}, "choice"),
        ({"level": "high"}, "choice"),
        ({"level": None}, "json"),
        ({"talk": [{"role": "user", "content": "Hi"}]}, "message"),
        ({"talk": [{"role": "user", "content": "Hi", "name": "Ann"}]}, "json"),
        ({"talk": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}, "json"),
    ],
)
def test_a_value_that_its_field_has_no_place_for_is_written_as_json(values: dict[str, Any], kinds: str) -> None:
    [name] = values
    assert [each.kind for each in fields_of(SCHEMA, values) if each.path == (name,)] == [kinds]
    assert again(SCHEMA, values) == (values, {})


@pytest.mark.parametrize(
    ("properties", "values"),
    [
        ({}, {"a": [1]}),
        ({"a": {"type": "string"}}, {"b": 1}),
        ({"a": {"properties": {"b": {"type": "string"}}}}, {"a": {}}),
        ({"a": {"properties": {"b": {"type": "string"}}}, "a.b": {"type": "string"}}, {"a.b": "x"}),
        ({str(number): {"type": "number"} for number in range(MOST_FIELDS + 1)}, {"1": 1}),
    ],
)
def test_an_input_that_fields_have_no_place_for_is_one_field(properties: Any, values: dict[str, Any]) -> None:
    schema = {"properties": properties}
    assert [(each.path, each.kind) for each in fields_of(schema, values)] == [((), "json")]
    assert again(schema, values) == (values, {})


def test_messages_are_known_by_what_their_items_refer_to() -> None:
    assert [each.kind for each in fields_of(SCHEMA, {}) if each.path == ("talk",)] == ["message"]


def test_a_required_flag_can_be_false() -> None:
    [flag] = fields_of({"properties": {"flag": {"type": "boolean"}}, "required": ["flag"]}, {})
    assert (flag.is_required, input_of([flag], {"input.flag": "no"})) == (True, ({"flag": False}, {}))
