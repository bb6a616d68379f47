"""ToolExecutorService over the catalogue of code tools."""

from __future__ import annotations

import time
from typing import Any

import grpc
from google.protobuf import struct_pb2
from opentelemetry import trace
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.code_executor.catalogue import Catalogue, CodeTool
from services.code_executor.errors import InvalidCall, RunMismatch, StaleEpoch, ToolRefused, UnknownTool
from services.code_executor.metrics import CALL_DURATION, CALLS, CUT_RESULTS
from services.code_executor.results import Result
from services.kit.identity import RunClaims, RunTokenVerifier, authorize_tool, bearer_token
from services.kit.logs import get_logger
from services.kit.names import GEN_AI_EXECUTE_TOOL, GEN_AI_OPERATION, GEN_AI_TOOL_CALL_ID, GEN_AI_TOOL_NAME

log = get_logger()
Context = grpc.aio.ServicerContext[Any, Any]


class ToolExecutor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Serves the code tools.

    All of them only read, and an exact commit never changes: a repeated call is answered by doing it again.
    """

    def __init__(self, verifier: RunTokenVerifier, catalogue: Catalogue) -> None:
        self._verifier = verifier
        self._catalogue = catalogue

    async def ListTools(self, request: tools_pb2.ListToolsRequest, context: Context) -> tools_pb2.ListToolsResponse:
        """Lists the tools."""
        del request  # has no fields
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        tools = sorted(self._catalogue.tools.values(), key=lambda tool: tool.name)
        return tools_pb2.ListToolsResponse(tools=[_tool(tool) for tool in tools])

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: Context) -> tools_pb2.CallToolResponse:
        """Calls a tool."""
        claims = self._verifier.verify(bearer_token(context.invocation_metadata()))
        authorize_tool(claims, request.tool)
        _check_run(request, claims)
        if request.tool not in self._catalogue.tools:
            raise UnknownTool(f"the code executor has no tool {request.tool!r}", metadata={"tool": request.tool})
        trace.get_current_span().set_attributes(
            {
                GEN_AI_OPERATION: GEN_AI_EXECUTE_TOOL,
                GEN_AI_TOOL_NAME: request.tool,
                GEN_AI_TOOL_CALL_ID: request.idempotency_key.tool_call_id,
            }
        )
        started = time.perf_counter()
        try:
            result = await self._catalogue.call(request.tool, request.arguments)
        except ToolRefused as error:
            CALLS.labels(request.tool, error.reason).inc()
            log.info("tool refused", tool=request.tool, reason=error.reason, error=error.message)
            refusal = tools_pb2.ToolError(reason=error.reason, message=error.message, retryable=error.retryable)
            return tools_pb2.CallToolResponse(error=refusal)
        finally:
            CALL_DURATION.labels(request.tool).observe(time.perf_counter() - started)
        CALLS.labels(request.tool, "ok").inc()
        if result.truncated:
            CUT_RESULTS.labels(request.tool).inc()
        return tools_pb2.CallToolResponse(output=_output(result))


def _check_run(request: tools_pb2.CallToolRequest, claims: RunClaims) -> None:
    key = request.idempotency_key
    if not key.run_id or not key.checkpoint_id or not 0 < len(key.tool_call_id) <= 256:
        raise InvalidCall("the idempotency key needs a run, a checkpoint and a tool call id of at most 256 characters")
    if key.run_id != claims.run_id:
        raise RunMismatch("the call names another run than its token")
    if request.epoch != claims.epoch:
        raise StaleEpoch("the call's epoch is not its token's: another replica has claimed the run")


def _tool(tool: CodeTool) -> tools_pb2.Tool:
    return tools_pb2.Tool(
        name=tool.name, description=tool.description, input_schema=_struct(tool.input_schema()), read_only=True
    )


def _output(result: Result) -> tools_pb2.ToolOutput:
    return tools_pb2.ToolOutput(text=result.text, data=_struct(result.data), truncated=result.truncated)


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct
