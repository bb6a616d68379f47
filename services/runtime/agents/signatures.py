"""Tools as prompts tell of them: a line each, with types as in TypeScript, of which a long one that recurs has a name.

A JSON Schema of the same takes three times as many tokens. What a call is checked against is the schema; bounds of
lengths and numbers are told to whoever breaks them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from services.runtime.calls.tool_client import ToolDescription

# What is shorter is as soon said as named.
_WORTH_A_NAME: Final = 24


def signatures(tools: Iterable[ToolDescription], *, without: Collection[str] = ()) -> list[str]:
    """Returns a line for each tool and each named type; arguments `without` are left out."""
    types: set[str] = set()
    text = "\n".join(
        f"{tool.name}({_fields(tool.input_schema, types, without)}): {' '.join(tool.description.split())}"
        for tool in tools
    )
    named = 0
    # The longest first: what stands in one of these is named within it.
    for each in sorted(types, key=lambda each: (-len(each), each)):
        if text.count(each) > 1:
            named += 1
            text = f"{text.replace(each, f'T{named}')}\nT{named} = {each}"
    return text.split("\n")


def _fields(schema: Mapping[str, Any], types: set[str], without: Collection[str] = ()) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name if name.isidentifier() else json.dumps(name)}{'' if name in required else '?'}: {_type(each, types)}"
        for name, each in schema.get("properties", {}).items()
        if name not in without
    )


def _type(schema: Any, types: set[str]) -> str:
    """Returns a type as text, and notes it and those within where they are worth a name."""
    told = _plain_type(schema, types) if isinstance(schema, Mapping) else "any"
    if isinstance(schema, Mapping) and schema.get("description"):
        told = f"{told} /* {' '.join(schema['description'].split())} */"
    if len(told) >= _WORTH_A_NAME:
        types.add(told)
    return told


def _plain_type(schema: Mapping[str, Any], types: set[str]) -> str:
    kind = schema.get("type", "any")
    if "enum" in schema:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if alternatives := schema.get("anyOf", schema.get("oneOf")):
        return " | ".join(_type(each, types) for each in alternatives)
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array":
        return f"({_type(schema.get('items', {}), types)})[]"
    if kind != "object":
        return str(kind)
    if schema.get("properties"):
        return f"{{{_fields(schema, types)}}}"
    return f"{{[name]: {_type(schema.get('additionalProperties', {}), types)}}}"
