"""ToolExecutorService for executors whose tools only read: what every call is checked for, and how it is answered.

ToolRefused          a refusal that the model is told of: `ToolError` in the answer
SignalboxError       the call itself fails: a gRPC status
├── UnknownTool      NOT_FOUND
├── RunMismatch      PERMISSION_DENIED
├── StaleEpoch       FAILED_PRECONDITION
└── InvalidCall      INVALID_ARGUMENT

A repeated call of a tool that only reads is answered by doing it again; that needs no memory of idempotency keys.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import grpc
from google.protobuf import struct_pb2
from opentelemetry import trace
from prometheus_client import Counter, Histogram
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.errors import SignalboxError
from services.kit.identity import Caller, RunClaims, RunTokenVerifier, authorize_tool, bearer_token
from services.kit.logs import get_logger
from services.kit.metrics import DURATION_BUCKETS, exemplar
from services.kit.names import (
    GEN_AI_EXECUTE_TOOL,
    GEN_AI_OPERATION,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
    METRIC_PREFIX,
)

log = get_logger()
Context = grpc.aio.ServicerContext[Any, Any]
SERVICE_NAME = "signalbox.v1.ToolExecutorService"
LONGEST_TOOL_CALL_ID = 256
OK = "ok"

TOOL_CALLS = Counter(
    METRIC_PREFIX + "tool_calls_served_total",
    "Tool calls, by tool and outcome: ok, or the reason.",
    ["tool", "outcome"],
)
TOOL_DURATION = Histogram(
    METRIC_PREFIX + "tool_serving_duration_seconds",
    "Duration of tool calls, by tool.",
    ["tool"],
    buckets=DURATION_BUCKETS,
)
CUT_RESULTS = Counter(METRIC_PREFIX + "tool_results_cut_total", "Results that a cap cut, by tool.", ["tool"])


class ToolRefused(Exception):
    """A call that was refused or failed in a way the model can mend: a reason code, and what to do instead."""

    def __init__(self, reason: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retryable = retryable


class UnknownTool(SignalboxError):
    """The executor has no such tool."""

    reason = "UNKNOWN_TOOL"
    code = grpc.StatusCode.NOT_FOUND


class RunMismatch(SignalboxError):
    """The call names another run than its token."""

    reason = "RUN_MISMATCH"
    code = grpc.StatusCode.PERMISSION_DENIED


class StaleEpoch(SignalboxError):
    """The call's epoch is not its token's: another replica has claimed the run."""

    reason = "STALE_EPOCH"
    code = grpc.StatusCode.FAILED_PRECONDITION


class InvalidCall(SignalboxError):
    """The request lacks what every call needs."""

    reason = "INVALID_CALL"
    code = grpc.StatusCode.INVALID_ARGUMENT


class ServedTool(Protocol):
    """A tool that an executor serves."""

    @property
    def name(self) -> str:
        """Its name, unique among all executors."""

    @property
    def description(self) -> str:
        """What it does, in words for the model; what follows the first paragraph goes into the system prompt."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of its arguments, draft 2020-12."""

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Does it for a caller; checks the arguments first. Raises ToolRefused and SignalboxError."""


class ReadingToolExecutor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Serves tools that only read to the runs whose token names them."""

    def __init__(self, tools: Sequence[ServedTool], verifier: RunTokenVerifier) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._verifier = verifier

    async def ListTools(  # noqa: N802 - the proto's name
        self, request: tools_pb2.ListToolsRequest, context: Context
    ) -> tools_pb2.ListToolsResponse:
        """Lists the tools, by name."""
        del request  # has no fields
        self._claims(context)
        response = tools_pb2.ListToolsResponse()
        for name, tool in sorted(self._tools.items()):
            listed = response.tools.add(name=name, description=tool.description, read_only=True)
            listed.input_schema.update(tool.input_schema)
        return response

    async def CallTool(  # noqa: N802 - the proto's name
        self, request: tools_pb2.CallToolRequest, context: Context
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool for the caller that the run token names."""
        claims = self._claims(context)
        authorize_tool(claims, request.tool)
        check_run(request, claims)
        tool = self._tools.get(request.tool)
        if tool is None:
            raise UnknownTool(f"this executor has no tool {request.tool!r}", metadata={"tool": request.tool})
        trace.get_current_span().set_attributes(
            {
                GEN_AI_OPERATION: GEN_AI_EXECUTE_TOOL,
                GEN_AI_TOOL_NAME: tool.name,
                GEN_AI_TOOL_CALL_ID: request.idempotency_key.tool_call_id,
            }
        )
        return await _call(tool, request.arguments, claims.caller)

    def _claims(self, context: Context) -> RunClaims:
        return self._verifier.verify(bearer_token(context.invocation_metadata()))


async def _call(tool: ServedTool, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.CallToolResponse:
    start = time.perf_counter()
    outcome = "failed"
    try:
        output = await tool.call(arguments, caller)
        outcome = OK
    except ToolRefused as refused:
        outcome = refused.reason
        log.info("tool refused", tool=tool.name, reason=refused.reason, error=refused.message)
        error = tools_pb2.ToolError(reason=refused.reason, message=refused.message, retryable=refused.retryable)
        return tools_pb2.CallToolResponse(error=error)
    finally:
        TOOL_CALLS.labels(tool.name, outcome).inc()
        TOOL_DURATION.labels(tool.name).observe(time.perf_counter() - start, exemplar())
        trace.get_current_span().set_attribute("signalbox.tool.outcome", outcome)
    if output.truncated:
        CUT_RESULTS.labels(tool.name).inc()
    return tools_pb2.CallToolResponse(output=output)


def check_run(request: tools_pb2.CallToolRequest, claims: RunClaims) -> None:
    """Checks that a call belongs to the run and the claim that its token names. Raises SignalboxError leaves."""
    key = request.idempotency_key
    if not key.run_id or not key.checkpoint_id or not 0 < len(key.tool_call_id) <= LONGEST_TOOL_CALL_ID:
        raise InvalidCall(
            "the idempotency key needs a run, a checkpoint and a tool call id of at most "
            f"{LONGEST_TOOL_CALL_ID} characters"
        )
    if key.run_id != claims.run_id:
        raise RunMismatch("the call names another run than its token")
    if request.epoch != claims.epoch:
        raise StaleEpoch("the call's epoch is not its token's: another replica has claimed the run")
