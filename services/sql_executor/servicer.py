"""ToolExecutorService: from the wire to the tools and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf import json_format
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from opentelemetry import trace
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.identity import RunClaims, RunTokenVerifier, authorize_tool, bearer_token
from services.kit.names import GEN_AI_EXECUTE_TOOL, GEN_AI_OPERATION, GEN_AI_TOOL_CALL_ID, GEN_AI_TOOL_NAME
from services.sql_executor.errors import Refusal, RunMismatch, UnknownTool
from services.sql_executor.metrics import TOOL_CALLS
from services.sql_executor.tools import Tool

_Context = grpc.aio.ServicerContext[Any, Any]


class ToolExecutorServicer(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Serves tools to runs. Both tools only read, so a repeated call is simply done again."""

    def __init__(self, tools: Sequence[Tool], verifier: RunTokenVerifier) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._validators = {tool.name: Draft202012Validator(tool.input_schema) for tool in tools}
        self._verifier = verifier

    async def ListTools(
        self,
        request: tools_pb2.ListToolsRequest,  # noqa: ARG002 - has no fields
        context: _Context,
    ) -> tools_pb2.ListToolsResponse:
        """List the tools, by name."""
        self._claims(context)
        response = tools_pb2.ListToolsResponse()
        for name in sorted(self._tools):
            tool = response.tools.add(name=name, description=self._tools[name].description, read_only=True)
            tool.input_schema.update(self._tools[name].input_schema)
        return response

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: _Context) -> tools_pb2.CallToolResponse:
        """Call a tool for the caller that the run token names."""
        claims = self._claims(context)
        authorize_tool(claims, request.tool)
        _check_run(request, claims)
        tool = self._tools.get(request.tool)
        if tool is None:
            raise UnknownTool(f"the SQL executor has no tool {request.tool!r}", metadata={"tool": request.tool})
        trace.get_current_span().set_attributes(
            {
                GEN_AI_OPERATION: GEN_AI_EXECUTE_TOOL,
                GEN_AI_TOOL_NAME: tool.name,
                GEN_AI_TOOL_CALL_ID: request.idempotency_key.tool_call_id,
            }
        )
        return await self._call(tool, json_format.MessageToDict(request.arguments), claims)

    async def _call(self, tool: Tool, arguments: Mapping[str, Any], claims: RunClaims) -> tools_pb2.CallToolResponse:
        outcome = "failed"
        try:
            self._check_arguments(tool, arguments)
            output = await tool.call(arguments, claims.caller)
            outcome = "ok"
            return tools_pb2.CallToolResponse(output=output)
        except Refusal as refusal:
            outcome = refusal.reason
            error = tools_pb2.ToolError(reason=refusal.reason, message=refusal.message, retryable=refusal.retryable)
            return tools_pb2.CallToolResponse(error=error)
        finally:
            TOOL_CALLS.labels(tool.name, outcome).inc()
            trace.get_current_span().set_attribute("signalbox.tool.outcome", outcome)

    def _claims(self, context: _Context) -> RunClaims:
        return self._verifier.verify(bearer_token(context.invocation_metadata()))

    def _check_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        problem = best_match(self._validators[tool.name].iter_errors(arguments))
        if problem is not None:
            raise Refusal("invalid_arguments", f"The arguments of {tool.name} are not valid: {problem.message[:300]}.")


def _check_run(request: tools_pb2.CallToolRequest, claims: RunClaims) -> None:
    if request.idempotency_key.run_id != claims.run_id:
        raise RunMismatch("the idempotency key names another run than the run token")
    if request.epoch != claims.epoch:
        raise RunMismatch("the request names another epoch than the run token")
