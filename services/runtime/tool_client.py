"""Calling the tools of an executor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError
from opentelemetry.trace import Status, StatusCode
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.errors import error_detail
from services.kit.identity import bearer_metadata
from services.kit.metrics import exemplar
from services.kit.names import GEN_AI_EXECUTE_TOOL, GEN_AI_OPERATION, GEN_AI_TOOL_CALL_ID, GEN_AI_TOOL_NAME
from services.kit.telemetry import tracer
from services.runtime.errors import ServiceFailed
from services.runtime.metrics import TOOL_DURATION
from services.runtime.routing.calls import noting
from services.runtime.run_context import NodeContext

# Tools change with a roll-out of their executor, not with a run.
CATALOG_LIFETIME_S = 60.0
_NOT_CARRIED = tools_pb2.ToolError(
    reason="invalid_arguments", message="The arguments hold a number or a depth of nesting that no tool takes."
)


@dataclass(frozen=True)
class ToolDescription:
    """A tool as a model is told of it; `notes` is what follows the description's first paragraph."""

    name: str
    description: str
    notes: str
    input_schema: Mapping[str, Any]

    def as_function(self) -> dict[str, Any]:
        """Returns the tool in the form that chat completions take."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


class ToolClient:
    """Calls one executor."""

    def __init__(self, channel: grpc.aio.Channel, *, service: str, timeout_s: float) -> None:
        self._stub = tools_pb2_grpc.ToolExecutorServiceStub(channel)
        self._service = service
        self._timeout_s = timeout_s
        self._catalog: dict[str, ToolDescription] = {}
        self._catalog_until = 0.0

    async def catalog(self, context: NodeContext) -> Mapping[str, ToolDescription]:
        """Returns the executor's tools by name. Raises ServiceFailed."""
        if time.monotonic() >= self._catalog_until:
            try:
                answer = await self._stub.ListTools(
                    tools_pb2.ListToolsRequest(),
                    timeout=self._timeout_s,
                    metadata=[bearer_metadata(context.run.token())],
                    wait_for_ready=True,
                )
            except grpc.aio.AioRpcError as error:
                raise self._failed(error, "list its tools") from error
            self._catalog = {tool.name: _description(tool) for tool in answer.tools}
            self._catalog_until = time.monotonic() + CATALOG_LIFETIME_S
        return self._catalog

    async def call(
        self, context: NodeContext, tool: str, arguments: Mapping[str, Any], tool_call_id: str
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool; a refusal is part of the answer. Raises ServiceFailed."""
        run = context.run
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
            noting("tool", tool) as call,
        ):
            start = time.perf_counter()
            try:
                # An executor that is being replaced is waited for; the key makes the channel's own repeats harmless.
                answer = await self._stub.CallTool(
                    request, timeout=self._timeout_s, metadata=[bearer_metadata(run.token())], wait_for_ready=True
                )
                if answer.HasField("error"):
                    call["outcome"] = answer.error.reason
                    span.set_status(Status(StatusCode.ERROR, answer.error.reason))
            except grpc.aio.AioRpcError as error:
                call["outcome"] = error_detail(error).reason
                raise self._failed(error, f"run {tool}") from error
            finally:
                TOOL_DURATION.labels(tool, call["outcome"]).observe(time.perf_counter() - start, exemplar())
        return answer

    def _failed(self, error: grpc.aio.AioRpcError, what: str) -> ServiceFailed:
        detail = error_detail(error)
        return ServiceFailed(
            f"the {self._service} could not {what} ({detail.reason}); try again later",
            metadata={"service": self._service, "cause": detail.reason},
        )


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


def _description(tool: tools_pb2.Tool) -> ToolDescription:
    description, _, notes = tool.description.partition("\n\n")
    schema = json_format.MessageToDict(tool.input_schema)
    return ToolDescription(tool.name, description, notes, schema)
