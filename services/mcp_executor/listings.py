"""Lists of tools as the library is given them: without those that are none, for one of which it refuses all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse
from mcp.types.methods import parse_server_result
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from services.kit.text.problems import problems_of

# In a list's `_meta`: tools that are left out of it, by name, and why.
INVALID: Final = "signalbox/invalid"
_METHOD: Final = "tools/list"


@asynccontextmanager
async def with_sound_tools(
    transport: AbstractAsyncContextManager[Any], version: Callable[[], str]
) -> AsyncIterator[tuple[Any, Any]]:
    """Gives a transport's streams; of the lists that come by it only tools of MCP, in its negotiated version."""
    async with transport as (heard, given):
        yield _Heard(heard, version), given


class _Heard:
    def __init__(self, stream: Any, version: Callable[[], str]) -> None:
        self._stream = stream
        self._version = version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Heard:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        said: SessionMessage | Exception = await self._stream.__anext__()
        message = said.message if isinstance(said, SessionMessage) else None
        # Of all answers only this one has such a field, or it means nothing there.
        if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
            message.result = _sound(message.result, self._version())
        return said


def _sound(listed: dict[str, Any], version: str) -> dict[str, Any]:
    kept, invalid = [], {}
    # Of no meaning since 2026, where tasks are an extension that both have to name.
    without = {"execution"} if version in MODERN_PROTOCOL_VERSIONS else set()
    for number, tool in enumerate(listed["tools"], 1):
        if why := _problem_of(tool, listed, version):
            name = tool.get("name") if isinstance(tool, dict) else None
            invalid[name if isinstance(name, str) else f"number {number}"] = why
        else:
            kept.append({name: value for name, value in tool.items() if name not in without})
    return {**listed, "tools": kept, "_meta": {INVALID: invalid}}


def _problem_of(tool: Any, listed: dict[str, Any], version: str) -> str:
    try:
        parse_server_result(_METHOD, version, {**listed, "tools": [tool]})
    except ValidationError as error:
        return str(problems_of(error)[0]).removeprefix("tools.0.")
    if version in MODERN_PROTOCOL_VERSIONS and (why := find_invalid_x_mcp_header(tool["inputSchema"])):
        return why
    return ""
