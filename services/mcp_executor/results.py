"""What a tool's result comes to for an agent: bounded text, and structured content where it is small enough."""

from __future__ import annotations

import json
from typing import Any

import mcp.types as mcp_types
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError
from signalbox.v1 import tools_pb2

from services.mcp_executor.errors import CallFailed

_CUT = "\n[cut: {left:,} characters more]"


def output_of(result: mcp_types.CallToolResult, *, most_chars: int) -> tools_pb2.ToolOutput:
    """Returns a result as agents read it. Raises CallFailed where the server says that the call failed."""
    text = "\n".join(filter(None, (_shown(block) for block in result.content)))
    structured = result.structured_content
    if structured is not None and not text:
        text = json.dumps(structured, ensure_ascii=False)
    text, cut = _bounded(text, most_chars)
    if result.is_error:
        raise CallFailed("tool_failed", text or "The server says that it failed, and not why.")
    output = tools_pb2.ToolOutput(text=text, truncated=cut)
    if isinstance(structured, dict) and len(json.dumps(structured)) <= most_chars:
        data = _as_struct(structured)
        if data is not None:
            output.data.CopyFrom(data)
    return output


def _shown(block: Any) -> str:
    """Returns a part of a result in words; of what is no text, what it is."""
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return f"[{block.type}, {block.mime_type}, {_size(block.data):,} bytes, not shown]"
        case mcp_types.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, mcp_types.TextResourceContents):
                return f"{resource.uri}\n{resource.text}"
            return f"[{resource.uri}, {_size(resource.blob):,} bytes, not shown]"
        case mcp_types.ResourceLink():
            return f"[{block.uri}, {block.name}]"
    return f"[{getattr(block, 'type', 'something')}, not shown]"


def _size(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded[-2:].count("=")


def _bounded(text: str, most: int) -> tuple[str, bool]:
    """Returns a text as the wire carries it, cut where it is too long, and whether it was."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text, False
    return text[:most] + _CUT.format(left=len(text) - most), True


def _as_struct(values: dict[str, Any]) -> struct_pb2.Struct | None:
    data = struct_pb2.Struct()
    try:
        data.update(values)
        tools_pb2.ToolOutput.FromString(tools_pb2.ToolOutput(data=data).SerializeToString())
    except (TypeError, ValueError, OverflowError, RecursionError, DecodeError):
        return None
    return data
