"""The JSON Schemas of a hosted graph's input, context and output, and what a request says wrong by them.

They are made by pydantic from the graph's own types, with two differences. Messages are told in a few lines, since
LangChain takes them in many forms. And of a typed dictionary nothing is required, since LangGraph takes part of one.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import jsonschema
import typing_extensions
from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import BaseMessage
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, PydanticInvalidForJsonSchema, PydanticUserError, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from services.kit.errors import FieldViolation, InvalidRequest

Schema = Mapping[str, Any]
Graph = CompiledStateGraph[Any, Any, Any, Any]
ANYTHING: Final[Schema] = {"type": "object"}
MOST_VIOLATIONS: Final = 20
# What writes JSON or MessagePack takes no larger integers.
_BEYOND_64_BITS: Final = 2**63
_NAMED_EITHER_WAY: Final = ("populate_by_name", "validate_by_name")
LONGEST: Final = 300
MESSAGE: Final[Schema] = {
    "title": "Message",
    "description": 'A text, a pair of role and text, or {"role": "user", "content": "…"} with what LangChain has.',
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        {"type": "object", "anyOf": [{"required": ["role"]}, {"required": ["type"]}]},
    ],
}


_WRAPPERS: Final = (
    Annotated,
    typing.Required,
    typing.NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)


class _Generator(GenerateJsonSchema):
    """Tells messages in a few lines, and of what has no schema that it may be anything."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Returns the schema of a model."""
        if issubclass(schema["cls"], BaseMessage):
            return dict(MESSAGE)
        made = super().model_schema(schema)
        config = schema["cls"].model_config
        return _by_either_name(schema["cls"], made) if any(config.get(key) for key in _NAMED_EITHER_WAY) else made

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Returns the schema of a typed dictionary: LangGraph never asks whether all of one is there."""
        made = super().typed_dict_schema(schema)
        made.pop("required", None)
        return made

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Returns the schema of a union; of `AnyMessage` that of one message."""
        if all(_is_message_schema(each) for each in schema["choices"].values()):
            return dict(MESSAGE)
        return super().tagged_union_schema(schema)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        """Returns a schema for what JSON has no word for: such a value can't be given, but the rest can."""
        del schema, error_info
        return {}


def _by_either_name(model: type[BaseModel], schema: JsonSchemaValue) -> JsonSchemaValue:
    """Returns the schema of a model that takes a field by its alias or its own name: it is required by neither."""
    properties, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
    for name, field in model.model_fields.items():
        alias = next((each for each in (field.validation_alias, field.alias) if isinstance(each, str)), name)
        if alias != name and alias in properties:
            properties[name] = properties[alias]
            required.discard(alias)
    return {**schema, "properties": properties, "required": sorted(required)}


def _is_message_schema(schema: Any) -> bool:
    if schema["type"] == "definition-ref":
        return str(schema["schema_ref"]).startswith("langchain_core.messages.")
    return schema["type"] == "model" and issubclass(schema["cls"], BaseMessage)


@dataclasses.dataclass(frozen=True)
class Schemas:
    """What a graph begins with, what it is told beside, and what it brings; `context` None where it has none."""

    input: Schema
    context: Schema | None
    output: Schema

    @classmethod
    def of(cls, graph: Graph) -> Schemas:
        """Returns the schemas of a graph."""
        builder = graph.builder
        context = builder.context_schema
        return cls(
            _state_schema(builder.input_schema),
            _state_schema(context) if context is not None else None,
            _state_schema(builder.output_schema),
        )

    def check(self, given: Any, context: Any, *, has_context: bool) -> None:
        """Checks what a request gives the graph. Raises InvalidRequest with a path for each thing that is wrong."""
        violations = _violations("input.graph.input", given, self.input)
        if self.context is not None and (has_context or _is_required(self.context)):
            violations += _violations("input.graph.context", context, self.context)
        elif has_context and self.context is None:
            violations.append(FieldViolation("input.graph.context", "the graph has no context_schema; leave it out"))
        if violations:
            what = f"{violations[0].field}: {violations[0].description}"
            raise InvalidRequest(f"the graph's input is wrong: {what}", violations=violations)


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Returns what a struct holds; numbers that are whole as integers, which is what a graph's code takes them for."""
    found: dict[str, Any] = MessageToDict(struct)
    return {name: whole(value) for name, value in found.items()}


def whole(value: Any) -> Any:
    """Returns JSON that a proto has carried, whose whole numbers are integers again, of 64 bits."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _BEYOND_64_BITS:
        return int(value)
    if isinstance(value, list):
        return [whole(each) for each in value]
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    return value


def _state_schema(state: Any) -> Schema:
    hint = rebuilt(state)
    try:
        made: dict[str, Any] = TypeAdapter(hint).json_schema(schema_generator=_Generator)
    except (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError):
        # Pydantic has no schema for one of its types: anything may be given, and the graph is the judge.
        return ANYTHING
    if typing_extensions.is_typeddict(hint):
        made.setdefault("additionalProperties", False)
    return made


def rebuilt(hint: Any, inside: Mapping[Any, Any] | None = None) -> Any:
    """Returns a type with its typed dictionaries made anew: before Python 3.12 pydantic takes none of `typing`'s."""
    made = dict(inside or {})
    if _hashable(hint) and hint in made:
        return made[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if _is_message(hint):
        return Annotated[Any, WithJsonSchema(dict(MESSAGE))]
    if origin is Annotated:
        # What comes behind is how a field is merged, and nothing that a schema says.
        return rebuilt(arguments[0], made)
    if typing_extensions.is_typeddict(hint):
        return _rebuilt_dictionary(hint, made)
    if dataclasses.is_dataclass(hint) or not arguments or origin is typing.Literal:
        return hint
    parts = tuple(rebuilt(each, made) if not isinstance(each, list) else each for each in arguments)
    try:
        return hint.copy_with(parts) if hasattr(hint, "copy_with") else origin[parts]
    except TypeError:
        return _union(parts)


def _is_message(hint: Any) -> bool:
    """Whether a type is one of messages, or a union of such."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (typing.Union, types.UnionType):
        return all(map(_is_message, get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, BaseMessage)


def _union(parts: tuple[Any, ...]) -> Any:
    return typing.Union[parts]  # noqa: UP007 - of types that are not known here


def _rebuilt_dictionary(hint: Any, made: dict[Any, Any]) -> Any:
    if sys.version_info >= (3, 12):
        return hint
    made[hint] = dict[str, Any]  # it may hold itself
    fields = {}
    for name, each in get_type_hints(hint, include_extras=True).items():
        while get_origin(each) in _WRAPPERS:
            each = get_args(each)[0]
        value = rebuilt(each, made)
        required = name in hint.__required_keys__
        fields[name] = typing_extensions.Required[value] if required else typing_extensions.NotRequired[value]
    twin: Any = typing_extensions.TypedDict(hint.__name__, fields)  # type: ignore[misc]
    twin.__doc__, twin.__module__ = hint.__doc__, hint.__module__
    return twin


def _hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


def _is_required(schema: Schema) -> bool:
    return bool(schema.get("required"))


def _violations(prefix: str, value: Any, schema: Schema) -> list[FieldViolation]:
    validator = jsonschema.Draft202012Validator(dict(schema))
    found = []
    for error in list(validator.iter_errors(value))[:MOST_VIOLATIONS]:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        found.append(FieldViolation(f"{prefix}{path}", _said(error)))
    return found


def _said(error: jsonschema.ValidationError) -> str:
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
        unknown = sorted(error.instance.keys() - known.keys())
        return f"there is no {', '.join(map(repr, unknown))}; there are {', '.join(sorted(known)) or 'none'}"[:LONGEST]
    message: str = error.message
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}…"
