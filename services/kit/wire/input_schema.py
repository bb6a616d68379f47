"""The JSON schema of an agent's input, made from its proto: types, and the rules that the gateway holds requests to."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from buf.validate import validate_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from signalbox.v1 import agents_pb2, runs_pb2

# The field of `RunInput` that all hosted graphs share.
HOSTED = "graph"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
# Messages that have a form of their own in JSON.
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?s$"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array"},
}
_BOUNDS = {"gte": "minimum", "lte": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def agents_known() -> list[str]:
    """The agents whose input this command knows, in the order of the proto."""
    fields = runs_pb2.RunInput.DESCRIPTOR.oneofs_by_name["agent"].fields
    return [field.name for field in fields if field.name != HOSTED]


def is_hosted(agent: agents_pb2.Agent) -> bool:
    """Whether an agent is a graph that somebody has brought."""
    return agent.HasField("input_schema") or agent.schemas_omitted


class AgentNotKnown(LookupError):
    """An agent that this release's contract has no input of."""


def input_field(agent: str) -> FieldDescriptor:
    """The field of `RunInput` that an agent's input goes into. Raises AgentNotKnown."""
    found: Any = runs_pb2.RunInput.DESCRIPTOR.fields_by_name.get(agent)
    if found is None:
        raise AgentNotKnown(f"no agent {agent!r} is known; there are {', '.join(agents_known())}")
    field: FieldDescriptor = found
    return field


def schema_of(agent: str) -> dict[str, Any]:
    """The schema of an agent's input. Raises AgentNotKnown."""
    message = _message_of(input_field(agent))
    definitions: dict[str, Any] = {}
    schema = _object(message, definitions)
    definitions.pop(message.full_name, None)
    kept = {"$defs": definitions} if definitions else {}
    return {"$schema": DIALECT, "title": message.full_name, **schema, **kept}


@cache
def _comments() -> dict[str, str]:
    """What the protos say of messages and fields, by full name; `make protos` writes it beside the stubs."""
    said: dict[str, str] = json.loads(Path(runs_pb2.__file__).with_name("comments.json").read_text(encoding="utf-8"))
    return said


def _described(full_name: str) -> dict[str, Any]:
    return {"description": _comments()[full_name]} if full_name in _comments() else {}


def _message_of(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None, "asked of fields that hold messages"  # noqa: S101 - of our own protos
    return field.message_type


def _object(message: Descriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for field in message.fields:
        rules = _rules(field)
        schema = _field(field, rules, definitions)
        if _is_required(field, rules, schema):
            required.append(field.name)
        properties[field.name] = {**_described(field.full_name), **schema}
    schema = {
        **_described(message.full_name),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    if choices := [_one_of(oneof) for oneof in message.oneofs]:
        schema["allOf"] = choices
    return schema


def _one_of(oneof: Any) -> dict[str, Any]:
    names = [field.name for field in oneof.fields]
    rules: Any = validate_pb2.oneof
    alone = [{"required": [name]} for name in names]
    none = {"not": {"anyOf": alone}}
    return {"oneOf": alone if oneof.GetOptions().Extensions[rules].required else [*alone, none]}


def _field(field: FieldDescriptor, rules: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if _is_map(field):
        value = _message_of(field).fields_by_name["value"]
        return {"type": "object", "additionalProperties": _single(value, rules.map.values, definitions)}
    if field.is_repeated:
        schema = {"type": "array", "items": _single(field, rules.repeated.items, definitions)}
        for rule, name in (("min_items", "minItems"), ("max_items", "maxItems")):
            if rules.repeated.HasField(rule):
                schema[name] = getattr(rules.repeated, rule)
        return schema
    return _single(field, rules, definitions)


def _single(field: FieldDescriptor, rules: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return _reference(_message_of(field), definitions)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return {"enum": [value.name for value in field.enum_type.values] if field.enum_type else []}
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return {"type": "boolean"}
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _text(field, rules)
    if kind in _INTEGERS:
        least, most = _INTEGERS[kind]
        return {"type": "integer", "minimum": least, "maximum": most, **_bounds(rules)}
    return {"type": "number", **_bounds(rules)}


def _text(field: FieldDescriptor, rules: Any) -> dict[str, Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return {"type": "string", "contentEncoding": "base64"}
    schema: dict[str, Any] = {"type": "string"}
    for rule, name in (("min_len", "minLength"), ("max_len", "maxLength"), ("pattern", "pattern")):
        if rules.string.HasField(rule):
            schema[name] = getattr(rules.string, rule)
    if rules.string.uuid:
        schema["format"] = "uuid"
    if given := getattr(rules.string, "in"):
        schema["enum"] = list(given)
    return schema


def _bounds(rules: Any) -> dict[str, Any]:
    """The bounds of a number, whatever its type."""
    kind = rules.WhichOneof("type")
    numbers = getattr(rules, kind) if kind else None
    found = {}
    for rule, name in _BOUNDS.items():
        if numbers is not None and rule in numbers.DESCRIPTOR.fields_by_name and numbers.HasField(rule):
            found[name] = getattr(numbers, rule)
    return found


def _reference(message: Descriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    if message.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[message.full_name]
    if message.full_name not in definitions:
        definitions[message.full_name] = {}  # it may hold itself
        definitions[message.full_name] = _object(message, definitions)
    return {"$ref": f"#/$defs/{message.full_name}"}


def _is_map(field: FieldDescriptor) -> bool:
    options: Any = field.message_type.GetOptions() if field.message_type else None
    return bool(options and options.map_entry)


def _rules(field: FieldDescriptor) -> Any:
    extension: Any = validate_pb2.field  # its stub knows no type of message that it extends
    options: Message = field.GetOptions()
    return options.Extensions[extension]


def _is_required(field: FieldDescriptor, rules: Any, schema: dict[str, Any]) -> bool:
    """Whether leaving a field out breaks its rules: by itself, or because its default does."""
    if rules.required or field.is_repeated:
        return bool(rules.required or schema.get("minItems"))
    if field.containing_oneof is not None or field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return False
    if schema.get("type") == "string":
        matches = re.search(schema["pattern"], "") if "pattern" in schema else True
        return not matches or schema.get("minLength", 0) > 0 or "" not in schema.get("enum", [""])
    return bool(schema.get("minimum", 0) > 0 or schema.get("maximum", 0) < 0)
