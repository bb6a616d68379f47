"""Arguments of the tools: their JSON Schemas, made for a policy, and the check of a call's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import struct_pb2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from services.graph_executor.elements import LONGEST_KEY, EdgeName, NodeName, fits_key
from services.graph_executor.policy import IDENTIFIER, GraphPolicy
from services.graph_executor.search_query import OPERATORS
from services.kit.tools.effects import plain
from services.kit.tools.executor import ToolRefused

LONGEST_ID: Final = 256
# As many as a run may make: all of them are undone together.
MOST_OPERATIONS: Final = 1000
_MOST_CONDITIONS: Final = 10
_MOST_PROPERTIES: Final = 100
_MOST_ITEMS: Final = 200
_REVISION: Final = {
    "type": "string",
    "pattern": "^[0-9a-f]{16}$",
    "description": "Revision that the change is based on, as an earlier answer gave it; another is refused.",
}
_EDGES_REVISION: Final = {
    **_REVISION,
    "description": "Digest of the node's edges that the change is based on, as a preview gave it; another is refused.",
}
_VALUE: Final = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        {"type": "array", "items": {"type": "string"}, "maxItems": _MOST_ITEMS},
    ]
}
Schema = dict[str, Any]


class Arguments:
    """The arguments of one tool."""

    def __init__(self, properties: Schema, required: Sequence[str], **more: Any) -> None:
        self.schema: Schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
            **more,
        }
        self._validator = Draft202012Validator(self.schema)

    def checked(self, arguments: struct_pb2.Struct) -> dict[str, Any]:
        """Returns a call's arguments as plain values. Raises ToolRefused."""
        return self.checked_values(plain(arguments))

    def checked_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns arguments that fit. Raises ToolRefused."""
        check_texts(values)
        values = _as_kept(values)
        problem = best_match(self._validator.iter_errors(values))
        if problem is not None:
            where = ".".join(str(part) for part in problem.absolute_path)
            raise ToolRefused("invalid_arguments", f"{where + ': ' if where else ''}{problem.message[:300]}")
        return dict(values)


def _as_kept(value: Any) -> Any:
    """Returns a value with its numbers as the database tells them again: with 15 digits."""
    if isinstance(value, Mapping):
        return {name: _as_kept(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_kept(item) for item in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.15g}")


def check_texts(value: Any) -> None:
    """Checks that no text, name or number is one that a database can't keep as it is. Raises ToolRefused."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            check_texts(name)
            check_texts(item)
    elif isinstance(value, list):
        for item in value:
            check_texts(item)
    elif isinstance(value, str):
        # A NUL ends a query for the server; a surrogate alone can't be sent.
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise ToolRefused("invalid_arguments", "A text holds a NUL or half a character.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ToolRefused("invalid_arguments", "A number is infinite or none.")


class ToolArguments:
    """The arguments of every tool, for one policy."""

    def __init__(self, policy: GraphPolicy) -> None:
        label: Schema = {"type": "string", "enum": sorted(policy.labels), "description": "Label of the node."}
        kind: Schema = {"type": "string", "enum": sorted(policy.edges) or [""], "description": "Type of the edge."}
        key: Schema = {
            "type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "description": "Key of the node, unique there.",
        }  # fmt: skip
        node = _object({"label": label, "key": key}, ["label", "key"])
        edge = {
            "type": kind,
            "from": {**node, "description": "Node that the edge begins at."},
            "to": {**node, "description": "Node that the edge ends at."},
        }
        properties: Schema = {
            "type": "object", "additionalProperties": _VALUE, "maxProperties": _MOST_PROPERTIES,
            "propertyNames": {"pattern": IDENTIFIER},
        }  # fmt: skip
        values = {**properties, "description": "Properties to set, besides the key."}
        names: Schema = {
            "type": "array",
            "items": {"type": "string", "pattern": IDENTIFIER},
            "maxItems": _MOST_PROPERTIES,
        }
        conditions = _conditions()
        step = _object(
            {
                "type": kind,
                "direction": {"enum": ["out", "in", "any"], "description": "Along the edge, against it, or either."},
                "label": {**label, "description": "Label of the node that it leads to."},
                "where": conditions,
            },
            ["type", "label"],
        )
        self.add_node = Arguments({"label": label, "key": key, "properties": values}, ["label", "key"])
        self.add_edge = Arguments({**edge, "properties": values}, list(edge))
        self.update_props = Arguments(
            {
                "label": label, "key": key,
                "edge": {**_object(edge, list(edge)), "description": "Edge to update, instead of label and key."},
                "properties": values,
                "remove": {**names, "description": "Names of properties to remove."},
                "base_revision": _REVISION,
            },
            [],
            oneOf=[{"required": ["label", "key"]}, {"required": ["edge"]}],
            anyOf=[{"required": ["properties"]}, {"required": ["remove"]}],
        )  # fmt: skip
        self.delete_node = Arguments(
            {
                "label": label, "key": key, "base_revision": _REVISION, "base_edges": _EDGES_REVISION,
                "with_edges": {"type": "boolean", "description": "True to delete its edges too; else it has none."},
            },
            ["label", "key"],
        )  # fmt: skip
        self.delete_edge = Arguments({**edge, "base_revision": _REVISION}, list(edge))
        self.query_graph = Arguments(
            {
                "label": label,
                "where": conditions,
                "follow": {
                    "type": "array", "items": step, "maxItems": policy.limits.path_length,
                    "description": "Edges to follow from there, one after another.",
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": policy.limits.rows},
            },
            ["label"],
        )  # fmt: skip
        self.cypher_query = Arguments(
            {
                "query": {"type": "string", "minLength": 1, "maxLength": policy.limits.query_length},
                "parameters": {**properties, "description": "Values of $names in the query."},
                "write": {
                    "type": "boolean",
                    "description": "True for a query that writes; it has no preview and no undo.",
                },
            },
            ["query"],
        )
        identifier: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
        self.undo_change = Arguments({"run_id": identifier, "operation_id": identifier}, ["run_id", "operation_id"])
        self.read_changes = Arguments({"run_id": identifier}, ["run_id"])
        operation = _object({"tool": {"type": "string"}, "arguments": {"type": "object"}}, ["tool", "arguments"])
        self.preview_changes = Arguments(
            {"operations": {"type": "array", "items": operation, "maxItems": MOST_OPERATIONS}}, ["operations"]
        )


def _object(properties: Schema, required: Sequence[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _conditions() -> Schema:
    condition = _object(
        {
            "property": {"type": "string", "pattern": IDENTIFIER, "description": "Name of a property, or key."},
            "operator": {"enum": sorted(OPERATORS), "description": "eq when left out."},
            "value": _VALUE,
        },
        ["property", "value"],
    )
    return {
        "type": "array", "items": condition, "maxItems": _MOST_CONDITIONS, "description": "All of these must hold.",
    }  # fmt: skip


def node_name(arguments: Mapping[str, Any]) -> NodeName:
    """Returns the node that arguments name. Raises ToolRefused."""
    if not fits_key(arguments["key"]):
        raise ToolRefused("invalid_arguments", "A key holds no control character, and no white space at its ends.")
    return NodeName(arguments["label"], arguments["key"])


def edge_name(arguments: Mapping[str, Any]) -> EdgeName:
    """Returns the edge that arguments name."""
    return EdgeName(arguments["type"], node_name(arguments["from"]), node_name(arguments["to"]))
