"""ToolExecutorService: what every call is checked for, and how it is answered; tools that write are in effects.py.

ToolRefused          a refusal that the model is told of: `ToolError` in the answer
SignalboxError       the call itself fails: a gRPC status
├── UnknownTool      NOT_FOUND
├── RunMismatch      PERMISSION_DENIED
├── StaleEpoch       FAILED_PRECONDITION, identity.py's
├── NoResultsKept    UNIMPLEMENTED
└── InvalidCall      INVALID_ARGUMENT

A repeated call of a tool that only reads is answered by doing it again; that needs no memory of idempotency keys.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import grpc
from google.protobuf import struct_pb2
from opentelemetry import trace
from prometheus_client import Counter, Histogram
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.errors import SignalboxError
from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller, RunClaims, StaleEpoch, authorize_tool
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import DURATION_BUCKETS, exemplar, from_zero
from services.kit.telemetry.names import (
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
# In an error's metadata: what stands behind an executor and is away, while the executor itself answers.
BEHIND = "dependency"

# By a fault of the executor or of what it calls, and no refusal.
FAILED = "failed"
TOOL_CALLS = Counter(
    METRIC_PREFIX + "tool_calls_served_total",
    "Tool calls, by tool and outcome: ok, failed, or the reason why it was refused.",
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


class NoResultsKept(SignalboxError):
    """The executor keeps no results of calls."""

    reason = "NO_RESULTS_KEPT"
    code = grpc.StatusCode.UNIMPLEMENTED


class InvalidCall(SignalboxError):
    """The request lacks what every call needs."""

    reason = "INVALID_CALL"
    code = grpc.StatusCode.INVALID_ARGUMENT


class DescribedTool(Protocol):
    """What an executor says of a tool."""

    @property
    def name(self) -> str:
        """Its name, unique among all executors."""

    @property
    def description(self) -> str:
        """What it does, in words for the model; what follows the first paragraph goes into the system prompt."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of its arguments, draft 2020-12."""


class ServedTool(DescribedTool, Protocol):
    """A tool that only reads."""

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Does it for a caller; checks the arguments first. Raises ToolRefused and SignalboxError."""


Answer = Callable[[], Awaitable[tools_pb2.CallToolResponse]]


class ReadingToolExecutor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Serves tools that only read to the runs whose token names them; `for_platform` are shown to no model."""

    def __init__(
        self, tools: Sequence[ServedTool], verifier: RunTokenVerifier, *, for_platform: Collection[str] = ()
    ) -> None:
        self._reading = {tool.name: tool for tool in tools}
        self._verifier = verifier
        self._for_platform = frozenset(for_platform)
        count_calls_from_zero(self._reading)

    async def ListTools(  # noqa: N802 - the proto's name
        self, request: tools_pb2.ListToolsRequest, context: Context
    ) -> tools_pb2.ListToolsResponse:
        """Lists the tools, by name."""
        del request  # has no fields
        self._claims(context)
        listed = {tool.name: tool for tool in self._listed()}
        return tools_pb2.ListToolsResponse(tools=[listed[name] for name in sorted(listed)])

    async def CallTool(  # noqa: N802 - the proto's name
        self, request: tools_pb2.CallToolRequest, context: Context
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool for the caller that the run token names."""
        claims = self._claims(context)
        authorize_tool(claims, request.tool)
        check_run(request.idempotency_key, request.epoch, claims)
        answer = self._find(request, claims)
        if answer is None:
            raise UnknownTool(f"this executor has no tool {request.tool!r}", metadata={"tool": request.tool})
        trace.get_current_span().set_attributes(
            {
                GEN_AI_OPERATION: GEN_AI_EXECUTE_TOOL,
                GEN_AI_TOOL_NAME: request.tool,
                GEN_AI_TOOL_CALL_ID: request.idempotency_key.tool_call_id,
            }
        )
        return await _measured(request.tool, answer)

    async def LookUpCall(  # noqa: N802 - the proto's name
        self, request: tools_pb2.LookUpCallRequest, context: Context
    ) -> tools_pb2.LookUpCallResponse:
        """Refuses: what only reads keeps no results."""
        check_run(request.idempotency_key, request.epoch, self._claims(context))
        raise NoResultsKept("this executor's tools only read, and keep no results; call the tool again")

    def _find(self, request: tools_pb2.CallToolRequest, claims: RunClaims) -> Answer | None:
        """Returns what answers a call whose token allows the tool; None when there is no such tool."""
        tool = self._reading.get(request.tool)
        return None if tool is None else partial(_read, tool, request.arguments, claims.caller)

    def _listed(self) -> Iterator[tools_pb2.Tool]:
        for tool in self._reading.values():
            yield self._described(tool, read_only=True)

    def _described(self, tool: DescribedTool, *, read_only: bool) -> tools_pb2.Tool:
        described = tools_pb2.Tool(
            name=tool.name,
            description=tool.description,
            read_only=read_only,
            for_platform=tool.name in self._for_platform,
        )
        described.input_schema.update(tool.input_schema)
        return described

    def _claims(self, context: Context) -> RunClaims:
        return self._verifier.verify(bearer_token(context.invocation_metadata()))


def count_calls_from_zero(tools: Iterable[str]) -> None:
    """Makes the series of tools, so that the first call of each, and the first that fails, is a rise."""
    names = list(tools)
    from_zero(TOOL_CALLS, names, [OK, FAILED])
    from_zero(TOOL_DURATION, names)
    from_zero(CUT_RESULTS, names)


async def _read(tool: ServedTool, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.CallToolResponse:
    try:
        return tools_pb2.CallToolResponse(output=await tool.call(arguments, caller))
    except ToolRefused as refused:
        return refusal(refused)


def refusal(refused: ToolRefused) -> tools_pb2.CallToolResponse:
    """Returns the answer that tells the model of a refusal."""
    error = tools_pb2.ToolError(reason=refused.reason, message=refused.message, retryable=refused.retryable)
    return tools_pb2.CallToolResponse(error=error)


async def _measured(tool: str, answer: Answer) -> tools_pb2.CallToolResponse:
    start = time.perf_counter()
    outcome = FAILED
    try:
        response = await answer()
        outcome = response.error.reason if response.HasField("error") else OK
    finally:
        TOOL_CALLS.labels(tool, outcome).inc()
        TOOL_DURATION.labels(tool).observe(time.perf_counter() - start, exemplar())
        trace.get_current_span().set_attribute("signalbox.tool.outcome", outcome)
    if response.HasField("error"):
        log.info("tool refused", tool=tool, reason=outcome, error=response.error.message)
    if response.output.truncated:
        CUT_RESULTS.labels(tool).inc()
    return response


def check_run(key: tools_pb2.IdempotencyKey, epoch: int, claims: RunClaims) -> None:
    """Checks that a call belongs to the run and the claim that its token names. Raises SignalboxError leaves."""
    if not key.run_id or not key.checkpoint_id or not 0 < len(key.tool_call_id) <= LONGEST_TOOL_CALL_ID:
        raise InvalidCall(
            "the idempotency key needs a run, a checkpoint and a tool call id of at most "
            f"{LONGEST_TOOL_CALL_ID} characters"
        )
    if key.run_id != claims.run_id:
        raise RunMismatch("the call names another run than its token")
    if epoch != claims.epoch:
        raise StaleEpoch("the call's epoch is not its token's: another replica has claimed the run")
