"""Tools as prompts tell of them: all that a call needs, in little, and never wrong of a schema that is unusual."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.runtime.agents.signatures import signatures
from services.runtime.calls.tool_client import ToolDescription

LABEL = {"type": "string", "enum": ["Ticket", "User"], "description": "Label of the node."}
NODE = {"type": "object", "properties": {"label": LABEL, "key": {"type": "string"}}, "required": ["label", "key"]}


def tool(name: str, properties: dict[str, Any], *required: str) -> ToolDescription:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ToolDescription(name, f"Does {name}.", "", schema)


def test_arguments_with_their_types_and_what_is_needed() -> None:
    values = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    step = {"type": "array", "items": {"type": "object", "properties": {"to": {"enum": ["in", "out"]}}}}
    assert signatures([tool("find", {"key": {"type": "string"}, "with": values, "follow": step}, "key")]) == [
        'find(key: string, with?: {[name]: string | number}, follow?: ({to?: "in" | "out"})[]): Does find.'
    ]


def test_a_long_type_that_recurs_is_written_once() -> None:
    assert signatures([tool("link", {"from": NODE, "to": NODE}, "from", "to"), tool("drop", {"label": LABEL})]) == [
        "link(from: T1, to: T1): Does link.",
        "drop(label?: T2): Does drop.",
        "T1 = {label: T2, key: string}",
        'T2 = "Ticket" | "User" /* Label of the node. */',
    ]


def test_what_the_platform_fills_in_is_not_told() -> None:
    assert signatures(
        [tool("drop", {"key": {"type": "string"}, "base": {"type": "string"}}, "key")], without=["base"]
    ) == ["drop(key: string): Does drop."]


SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(["string", "object", "array"]), "enum": st.lists(st.integers())}
    )
    | st.booleans(),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(st.text(), inner)})
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1), "description": st.text()})
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), SCHEMAS, min_size=1))
def test_whatever_a_schema_is_each_argument_is_named(properties: dict[str, Any]) -> None:
    lines = signatures([tool("any", properties)])
    assert lines[0].startswith("any(")
    assert all(f"{name}?: " in lines[0] for name in properties)
    assert len(json.dumps(lines)) < 200 + 2 * len(json.dumps(properties))
