"""Schemas of tools that would be held against values without end are not offered; ordinary ones are."""

from __future__ import annotations

from typing import Any

import pytest

from services.mcp_executor.accepted import Definition
from services.mcp_executor.offer import problem_of
from services.mcp_executor.servers import AllowedTool

TREE = {"$ref": "#/$defs/node"}
OF_NODES: dict[str, Any] = {"node": {"properties": {"left": TREE, "right": TREE, "all": {"items": TREE}}}}


def doubling(levels: int) -> dict[str, Any]:
    """Each of its schemas refers twice to the next."""
    twice = {f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(levels)}
    return {"properties": {"a": {"$ref": "#/$defs/x0"}}, "$defs": {**twice, f"x{levels}": {"type": "integer"}}}


def of_nodes(node: Any) -> dict[str, Any]:
    return {"properties": {"tree": TREE}, "$defs": {"node": node}}


def either(*names: str) -> dict[str, Any]:
    """A field that holds one of several."""
    return {"properties": {"next": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}}}


def with_defs(**defs: Any) -> dict[str, Any]:
    return {"properties": {"a": {"$ref": f"#/$defs/{next(iter(defs))}"}}, "$defs": defs}


JSON = {"$ref": "#/$defs/json"}
OF_JSON = with_defs(json={"anyOf": [{"type": "string"}, {"items": JSON}, {"additionalProperties": JSON}]})
SUM = {"prefixItems": [{"const": "+"}, {"$ref": "#/$defs/sum"}, {"$ref": "#/$defs/sum"}]}
ONE_OR_MANY = with_defs(node={"properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"items": TREE}]}}})
FILTERS = {name: {"properties": {name: {"items": {"$ref": "#/$defs/any"}}}} for name in ("and", "or")}
BLOCKS = with_defs(**{
    f"b{n}": {"properties": {f"f{m}": {"$ref": f"#/$defs/b{(n + m + 1) % 30}"} for m in range(5)}} for n in range(30)
})  # fmt: skip
FILTER = with_defs(any={"anyOf": [{"$ref": f"#/$defs/{name}"} for name in FILTERS]}, **FILTERS)

ENDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "doubling": (doubling(25), "more than 10,000 schemas"),
    "itself": (of_nodes(TREE), "refers to itself"),
    "itself by another": (
        {"properties": {"tree": TREE}, "$defs": {"node": {"$ref": "#/$defs/b"}, "b": TREE}}, "refers to itself",
    ),
    "twice in each level": (
        of_nodes({"allOf": [{"properties": {"next": TREE}}, {"properties": {"next": TREE}}]}),
        "more than once for the same value",
    ),
    "each other twice": (with_defs(a=either("a", "b"), b=either("a", "b")), "more than once for the same value"),
    "the next, too": (
        with_defs(**{f"x{n}": either(f"x{n}", f"x{n + 1}") for n in range(30)}, x30=either("x30")),
        "more than once for the same value",
    ),
    "one level or two": (
        of_nodes({"properties": {"next": {"anyOf": [TREE, {"properties": {"next": TREE}}]}}}),
        "more than once for the same value",
    ),
    "by name and by pattern": (
        of_nodes({"properties": {"next": TREE}, "patternProperties": {".": TREE}}), "more than once for the same value",
    ),
    "doubling, and again": (
        with_defs(
            **{f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(25)},
            x25={"properties": {"next": {"$ref": "#/$defs/x0"}}},
        ),
        "refer",
    ),
    "many ways": (
        of_nodes({"properties": {f"f{n}": TREE for n in range(2000)}}), "refer to each other in too many ways",
    ),
    "fetched": ({"properties": {"a": {"$ref": "http://169.254.169.254/schema"}}}, "nothing is fetched"),
    "of a file": ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
    "not there": ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "is not in it"),
    "by an anchor": ({"properties": {"a": {"$ref": "#a"}, "b": {"$anchor": "a"}}}, "nothing is fetched"),
    "with another base": ({"properties": {"a": {"$id": "http://x/y", "$ref": "#/z"}}}, "an $id of its own"),
    "dynamic": ({"$dynamicRef": "#a"}, "is not read"),
    "none": ({"properties": {"a": {"type": "nothing"}}}, "is not valid"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("of", ["input_schema", "output_schema"])
def test_a_schema_without_an_end_is_not_offered(kind: str, of: str) -> None:
    schema, words = ENDLESS[kind]
    schemas: dict[str, Any] = {"input_schema": {"type": "object"}, of: {"type": "object", **schema}}
    assert words in problem_of(Definition(**schemas), AllowedTool(effect="reads"))


@pytest.mark.parametrize(
    "schema",
    [
        doubling(8),
        of_nodes(OF_NODES["node"]),
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        OF_JSON,
        with_defs(sum=SUM),
        ONE_OR_MANY,
        FILTER,
    ],
)
def test_a_schema_that_refers_to_itself_for_other_values_is_offered(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    assert problem_of(Definition(input_schema=schema, output_schema=schema), AllowedTool(effect="reads")) == ""
