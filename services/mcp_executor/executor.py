"""ToolExecutorService over MCP servers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import RunClaims, authorize_writing
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.tools.effects import fingerprint, plain
from services.kit.tools.executor import (
    Answer,
    Context,
    ReadingToolExecutor,
    ToolRefused,
    count_calls_from_zero,
    refusal,
)
from services.mcp_executor.accepted import Definition
from services.mcp_executor.errors import CallFailed, NotMade
from services.mcp_executor.repeats import Repeats
from services.mcp_executor.results import output_of
from services.mcp_executor.servers import AllowedTool
from services.mcp_executor.tool_server import OnBehalf, ToolServer

_token: ContextVar[str] = ContextVar("run_token", default="")


@dataclass(frozen=True)
class AcceptedTool:
    """A tool of a server that agents may call, under the name that they call it by."""

    name: str
    server: ToolServer
    tool: str
    definition: Definition
    allowed: AllowedTool

    @property
    def description(self) -> str:
        """What it does, in the server's words as they were accepted."""
        return self.definition.description or self.definition.title or self.tool

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of its arguments, but for the key that is the platform's to give."""
        schema, key = dict(self.definition.input_schema), self.allowed.key_argument
        if key:
            schema["properties"] = {
                name: value for name, value in (schema.get("properties") or {}).items() if name != key
            }
            schema["required"] = [name for name in schema.get("required") or () if name != key]
        return schema

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.allowed.effect == "writes"

    @property
    def is_repeatable(self) -> bool:
        """Whether a repeated call changes no more than one."""
        return not self.writes or bool(self.allowed.key_argument) or self.allowed.repeatable


class McpToolExecutor(ReadingToolExecutor):
    """Serves accepted tools to the runs whose token names them."""

    def __init__(self, tools: Sequence[AcceptedTool], verifier: RunTokenVerifier) -> None:
        super().__init__((), verifier)
        self._tools = {tool.name: tool for tool in tools}
        self._repeats = Repeats()
        count_calls_from_zero(self._tools)

    def _claims(self, context: Context) -> RunClaims:
        claims = super()._claims(context)
        _token.set(bearer_token(context.invocation_metadata()))
        return claims

    def _listed(self) -> Iterator[tools_pb2.Tool]:
        for tool in self._tools.values():
            listed = self._described(tool, read_only=not tool.writes)
            listed.at_least_once = not tool.is_repeatable
            yield listed

    def _find(self, request: tools_pb2.CallToolRequest, claims: RunClaims) -> Answer | None:
        tool = self._tools.get(request.tool)
        if tool is None:
            return None
        if not tool.writes:
            return partial(self._call, tool, plain(request.arguments), OnBehalf(claims.caller, _token.get()))
        authorize_writing(claims, request.tool)
        return partial(self._write, tool, request.arguments, request.idempotency_key, claims)

    async def _write(
        self,
        tool: AcceptedTool,
        given: struct_pb2.Struct,
        key: tools_pb2.IdempotencyKey,
        claims: RunClaims,
    ) -> tools_pb2.CallToolResponse:
        arguments = plain(given)
        if name := tool.allowed.key_argument:
            if name in arguments:
                told = f"The argument {name} is the platform's to give; leave it out."
                return refusal(CallFailed("invalid_arguments", told))
            arguments[name] = operation_key(key)
        call = partial(self._made, tool, arguments, OnBehalf(claims.caller, _token.get()))
        try:
            return await self._repeats.once((key.run_id, key.tool_call_id), fingerprint(tool.name, given), call)
        except NotMade as refused:
            return refusal(refused)

    async def _call(
        self, tool: AcceptedTool, arguments: dict[str, Any], on_behalf: OnBehalf
    ) -> tools_pb2.CallToolResponse:
        try:
            return await self._made(tool, arguments, on_behalf)
        except NotMade as refused:
            return refusal(refused)

    async def _made(
        self, tool: AcceptedTool, arguments: dict[str, Any], on_behalf: OnBehalf
    ) -> tools_pb2.CallToolResponse:
        """Makes a call. Raises NotMade, ServerAway, ServerBusy where it has not been made."""
        try:
            result = await tool.server.call(tool.tool, arguments, on_behalf, repeatable=tool.is_repeatable)
            return tools_pb2.CallToolResponse(output=output_of(result, most_chars=tool.server.most_chars))
        except NotMade:
            raise
        except ToolRefused as refused:
            return refusal(refused)


def operation_key(key: tools_pb2.IdempotencyKey) -> str:
    """Returns what a server knows a call by: the same for the same call of a run, and no other's."""
    return hashlib.sha256(f"{key.run_id}\n{key.tool_call_id}".encode()).hexdigest()
