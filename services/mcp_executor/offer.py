"""Which tools of a server agents are offered: those that are allowed, accepted, and known to read or to write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from signalbox.v1 import tools_pb2

from services.mcp_executor.accepted import Definition
from services.mcp_executor.servers import AllowedTool, McpServer, name_of

_UNUSABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, DecodeError, SchemaError)
# Each goes into prompts.
LONGEST_DESCRIPTION: Final = 10_000
LARGEST_SCHEMA_BYTES: Final = 100_000
_AROUND_BYTES: Final = 100


@dataclass(frozen=True)
class Offer:
    """Tools by the name that agents call them by, and those that are left out with the reason."""

    tools: dict[str, tuple[str, Definition, AllowedTool]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0


def offered(name: str, server: McpServer, accepted: Mapping[str, Definition], *, most_bytes: int) -> Offer:
    """Returns what of a server is offered: of all in so many bytes of a list, those that its file names first."""
    tools: dict[str, tuple[str, Definition, AllowedTool]] = {}
    left_out: dict[str, str] = {}
    size_bytes = 0
    for tool, allowed in server.tools.items():
        called, definition = name_of(name, tool, allowed), accepted.get(tool)
        why = "nobody has accepted it" if definition is None else problem_of(definition, allowed)
        size = _size_of(called, definition) if definition and not why else 0
        if size_bytes + size > most_bytes:
            why = "with those before it the list of tools is larger than SIGNALBOX_MAX_MESSAGE_BYTES"
        if why or definition is None:
            left_out[f"{name}.{tool}"] = why
        else:
            tools[called], size_bytes = (tool, definition, allowed), size_bytes + size
    return Offer(tools, left_out, size_bytes)


def _size_of(called: str, definition: Definition) -> int:
    carried = struct_pb2.Struct()
    carried.update(definition.input_schema)
    described = definition.description or definition.title or ""
    # And what the list and its flags take.
    return tools_pb2.Tool(name=called, description=described, input_schema=carried).ByteSize() + _AROUND_BYTES


def problem_of(definition: Definition, allowed: AllowedTool) -> str:
    """Returns why a tool can't be offered; empty where it can."""
    if allowed.effect is None and not definition.says_it_reads:
        return "the server does not say that it only reads; say `effect: reads` or `effect: writes`"
    if len(definition.description or "") > LONGEST_DESCRIPTION:
        return f"its description is longer than {LONGEST_DESCRIPTION:,} characters"
    if definition.task_support:
        return "its server gives results as tasks of MCP alone, which are not offered"
    schema = definition.input_schema
    try:
        carried = struct_pb2.Struct()
        carried.update(schema)
        wire = tools_pb2.Tool(input_schema=carried).SerializeToString()
        tools_pb2.Tool.FromString(wire)
        if len(wire) > LARGEST_SCHEMA_BYTES:
            return f"its schema of arguments is larger than {LARGEST_SCHEMA_BYTES:,} bytes"
        Draft202012Validator.check_schema(schema)
    except _UNUSABLE as error:
        return f"its schema of arguments can't be used: {str(error).splitlines()[0]}"
    of_results = definition.output_schema or {}
    try:
        # No model is told of it, and a larger one is held against its draft by whoever holds results against it.
        if len(json.dumps(of_results)) <= LARGEST_SCHEMA_BYTES:
            validator_for(of_results, default=Draft202012Validator).check_schema(of_results)
    except _UNUSABLE as error:
        return f"its schema of results can't be used: {str(error).splitlines()[0]}"
    if schema.get("type") != "object":
        return "its arguments are no object"
    if allowed.key_argument and allowed.key_argument not in (schema.get("properties") or {}):
        return f"it takes no argument {allowed.key_argument!r}"
    return ""
