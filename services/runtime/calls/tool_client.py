"""Calling the tools of an executor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from opentelemetry.trace import Status, StatusCode
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.errors import SignalboxError, error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.telemetry.metrics import exemplar
from services.kit.telemetry.names import GEN_AI_EXECUTE_TOOL, GEN_AI_OPERATION, GEN_AI_TOOL_CALL_ID, GEN_AI_TOOL_NAME
from services.kit.telemetry.tracing import tracer
from services.runtime.calls.breaker import Breaker
from services.runtime.calls.dependency import STALE_EPOCH, failure_of
from services.runtime.calls.recording import LIST_TOOLS, heard_before
from services.runtime.errors import ClaimLost, DependencyAway, ServiceFailed
from services.runtime.metrics import TOOL_DURATION
from services.runtime.routing.calls import BUDGET_SPENT, TOOL, acting, left_s, noting, refused_by_budget
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.storable import presentable
from services.runtime.routing.waiting import why_away

# Tools change with a roll-out of their executor, not with a run.
CATALOG_LIFETIME_S = 60.0
LOOK_UP = "look_up_call"
CALL_UNKNOWN = "CALL_UNKNOWN"
# What reading comes to where something is missing, of another kind, or no number that there is.
_NOT_OF_ITS_FORM = (ArithmeticError, AttributeError, LookupError, SchemaError, TypeError, ValueError)
# The argument in whose place stand arguments that are no JSON object: no tool takes it, and the model hears why.
MALFORMED = "malformed"
_NOT_CARRIED = tools_pb2.ToolError(
    reason="invalid_arguments", message="The arguments hold a number or a depth of nesting that no tool takes."
)


@dataclass(frozen=True)
class ToolDescription:
    """A tool as a model is told of it; `notes` is what follows the description's first paragraph.

    One that is `for_platform` is for the platform's own steps, and no model is told of it. A call of one that is
    `at_least_once` may take effect again when it is repeated.
    """

    name: str
    description: str
    notes: str
    input_schema: Mapping[str, Any]
    for_platform: bool = False
    read_only: bool = False
    at_least_once: bool = False

    def as_function(self) -> dict[str, Any]:
        """Returns the tool in the form that chat completions take."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


class ToolClient:
    """Calls one executor, with run tokens for it alone."""

    def __init__(self, channel: grpc.aio.Channel, *, service: str, audience: str, timeout_s: float) -> None:
        self._stub = tools_pb2_grpc.ToolExecutorServiceStub(channel)
        self.service = service
        self._breaker = Breaker(service)
        self._audience = audience
        self._timeout_s = timeout_s
        self._catalog: dict[str, ToolDescription] = {}
        self._catalog_until = 0.0
        self._listed = tools_pb2.ListToolsResponse()

    async def catalog(self, context: NodeContext) -> Mapping[str, ToolDescription]:
        """Returns the executor's tools by name. Raises DependencyAway, ServiceFailed."""
        if time.monotonic() >= self._catalog_until:
            with self._breaker.passing():
                try:
                    answer = await self._stub.ListTools(
                        tools_pb2.ListToolsRequest(),
                        timeout=self._timeout_s,
                        metadata=[bearer_metadata(context.run.token(self._audience))],
                    )
                except grpc.aio.AioRpcError as error:
                    raise self._failed(error, "list its tools") from error
            with self.reading("list its tools"):
                told = (tool.SerializeToString(deterministic=True) for tool in answer.tools)
                self._catalog = {tool.name: tool for tool in map(_description, told)}
            self._listed = answer
            self._catalog_until = time.monotonic() + CATALOG_LIFETIME_S
        else:
            heard_before(self.service, LIST_TOOLS, self._listed)
        return self._catalog

    async def call(
        self, context: NodeContext, tool: str, arguments: Mapping[str, Any], tool_call_id: str
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool; a refusal is part of the answer, also where the run's budget does not allow the call.

        Raises DependencyAway, ClaimLost, ServiceFailed.
        """
        run = context.run
        if limit := refused_by_budget(TOOL, tool):
            return _budget_spent(limit)
        if MALFORMED in arguments:
            told = f"The arguments are not a JSON object: {arguments[MALFORMED]}"
            return tools_pb2.CallToolResponse(error=tools_pb2.ToolError(reason="invalid_arguments", message=told))
        given = _as_struct(arguments)
        if given is None:
            return tools_pb2.CallToolResponse(error=_NOT_CARRIED)
        request = tools_pb2.CallToolRequest(
            tool=tool,
            arguments=given,
            idempotency_key=tools_pb2.IdempotencyKey(
                run_id=run.run_id, checkpoint_id=context.checkpoint_id, tool_call_id=tool_call_id
            ),
            epoch=run.epoch,
        )
        attributes = {
            GEN_AI_OPERATION: GEN_AI_EXECUTE_TOOL, GEN_AI_TOOL_NAME: tool, GEN_AI_TOOL_CALL_ID: tool_call_id,
        }  # fmt: skip
        with (
            tracer().start_as_current_span(f"{GEN_AI_EXECUTE_TOOL} {tool}", attributes=attributes) as span,
            noting(TOOL, tool, service=self.service) as call,
            self._breaker.passing(),
        ):
            start, timeout_s = time.perf_counter(), min(self._timeout_s, left_s())
            try:
                # The channel repeats it a few times in a second, which the key makes harmless; then the run waits.
                answer = await self._stub.CallTool(
                    request,
                    timeout=timeout_s,
                    metadata=[bearer_metadata(run.token(self._audience))],
                )
                if not _is_readable(answer):
                    call["outcome"] = ServiceFailed.reason
                    raise self._unreadable(f"run {tool}")
                if answer.HasField("error"):
                    call["outcome"] = answer.error.reason
                    span.set_status(Status(StatusCode.ERROR, answer.error.reason))
            except grpc.aio.AioRpcError as error:
                call["outcome"] = error_detail(error).reason
                # What only reads was cut by the run's own end; of what writes it is not known what came of it.
                if not acting() and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and timeout_s < self._timeout_s:
                    if cause := why_away(run.attempts, self.service):
                        raise DependencyAway(self.service, cause) from error
                    return _budget_spent("wall_time_s")
                raise self._failed(error, f"run {tool}") from error
            finally:
                TOOL_DURATION.labels(tool, call["outcome"]).observe(time.perf_counter() - start, exemplar())
        return answer

    async def look_up(self, context: NodeContext, tool_call_id: str) -> tools_pb2.CallToolResponse | None:
        """Returns the result that the executor keeps of an earlier call; None when that took no effect.

        Raises DependencyAway, ClaimLost, ServiceFailed.
        """
        run = context.run
        request = tools_pb2.LookUpCallRequest(
            idempotency_key=tools_pb2.IdempotencyKey(
                run_id=run.run_id, checkpoint_id=context.checkpoint_id, tool_call_id=tool_call_id
            ),
            epoch=run.epoch,
        )
        with noting(TOOL, LOOK_UP, service=self.service) as call, self._breaker.passing():
            try:
                answer = await self._stub.LookUpCall(
                    request, timeout=self._timeout_s, metadata=[bearer_metadata(run.token(self._audience))]
                )
            except grpc.aio.AioRpcError as error:
                call["outcome"] = error_detail(error).reason
                if call["outcome"] == CALL_UNKNOWN:
                    return None
                raise self._failed(error, "look up a call") from error
            if not _is_readable(answer.result):
                raise self._unreadable("look up a call")
        return answer.result

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Reads an answer to `what`; of one that is not of its form nothing is believed. Raises ServiceFailed."""
        try:
            yield
        except _NOT_OF_ITS_FORM as error:
            raise self._unreadable(what) from error

    def _unreadable(self, what: str) -> ServiceFailed:
        """Returns what an answer means that nobody can read: a service of another release, or a broken one."""
        return ServiceFailed(
            f"the {self.service} was asked to {what}, and its answer can't be read", metadata={"service": self.service}
        )

    def _failed(self, error: grpc.aio.AioRpcError, what: str) -> SignalboxError:
        detail = error_detail(error)
        if detail.reason == STALE_EPOCH:
            return ClaimLost(f"the {self.service} knows of a later claim of the run")
        return failure_of(detail, self.service, what)


def _budget_spent(limit: str) -> tools_pb2.CallToolResponse:
    said = f"The run's budget of {limit} is spent, and the call was not made; no other will be."
    return tools_pb2.CallToolResponse(error=tools_pb2.ToolError(reason=BUDGET_SPENT, message=said))


def _as_struct(arguments: Mapping[str, Any]) -> struct_pb2.Struct | None:
    """Returns arguments as the wire carries them; None for numbers that it lacks, and for nesting beyond its limit."""
    given = struct_pb2.Struct()
    try:
        given.update(arguments)
        # What is nested too deep is written without a word, and refused by whoever reads it.
        tools_pb2.CallToolRequest.FromString(tools_pb2.CallToolRequest(arguments=given).SerializeToString())
    except (ValueError, OverflowError, RecursionError, DecodeError):
        return None
    return given


# To check a schema keeps the event loop for tens of milliseconds, and executors say the same again and again.
@lru_cache(maxsize=256)
def _description(serialized_tool: bytes) -> ToolDescription:
    tool = tools_pb2.Tool.FromString(serialized_tool)
    description, _, notes = tool.description.partition("\n\n")
    schema = json_format.MessageToDict(tool.input_schema)
    Draft202012Validator.check_schema(schema)
    return ToolDescription(tool.name, description, notes, schema, tool.for_platform, tool.read_only, tool.at_least_once)


def _is_readable(answer: tools_pb2.CallToolResponse) -> bool:
    """Tells whether an answer says how it went, in words if not well, and has a value for each column in each row."""
    table, reason = answer.output.table, answer.error.reason
    said = answer.HasField("outcome") and (not answer.HasField("error") or bool(reason))
    return said and reason == presentable(reason) and all(len(row.values) == len(table.columns) for row in table.rows)
