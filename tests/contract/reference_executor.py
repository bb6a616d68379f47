"""The smallest executor that keeps the contract of `ToolExecutorService`: what an executor with writing tools must do.

    executor = ReferenceExecutor(RunTokenVerifier(public_pem), [increment_counter], Effects())

A call is one transaction: the epoch is compared with the highest seen of its run, the key is looked up, the tool has
its effect, and the result is kept beside the effect. `Effects()` is in memory; with a file it outlives the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.errors import SignalboxError
from services.kit.identity import RunClaims, RunTokenVerifier, authorize_tool, bearer_token

Context = grpc.aio.ServicerContext[Any, Any]
TOOL_CALL_ID_LENGTH = 256
_TABLES = """
    CREATE TABLE IF NOT EXISTS epochs (run_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS results (
        run_id TEXT, checkpoint_id TEXT, tool_call_id TEXT, call BLOB NOT NULL, response BLOB NOT NULL,
        PRIMARY KEY (run_id, checkpoint_id, tool_call_id));
    CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS effects (
        run_id TEXT, checkpoint_id TEXT, tool_call_id TEXT, epoch INTEGER, counter TEXT, amount INTEGER);
    CREATE TABLE IF NOT EXISTS attempts (
        run_id TEXT, checkpoint_id TEXT, tool_call_id TEXT, epoch INTEGER, tool TEXT, outcome TEXT);
"""


class StaleEpoch(SignalboxError):
    """The run has since been claimed by another replica."""

    reason = "STALE_EPOCH"
    code = grpc.StatusCode.FAILED_PRECONDITION


class KeyReused(SignalboxError):
    """The key was used for another call."""

    reason = "KEY_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class RunMismatch(SignalboxError):
    """The request names another run or epoch than its token."""

    reason = "RUN_MISMATCH"
    code = grpc.StatusCode.PERMISSION_DENIED


class InvalidKey(SignalboxError):
    """The idempotency key is not whole."""

    reason = "INVALID_KEY"
    code = grpc.StatusCode.INVALID_ARGUMENT


class UnknownTool(SignalboxError):
    """There is no such tool."""

    reason = "UNKNOWN_TOOL"
    code = grpc.StatusCode.NOT_FOUND


@dataclass(frozen=True)
class Call:
    """What a tool is given: who calls, by which key, and a transaction to have its effect in."""

    claims: RunClaims
    key: tools_pb2.IdempotencyKey
    transaction: sqlite3.Connection

    def count(self, name: str, amount: int) -> int:
        """Adds to a counter and returns its value."""
        [value] = self.transaction.execute(
            "INSERT INTO counters VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET value = value + excluded.value RETURNING value",
            (name, amount),
        ).fetchone()
        self.transaction.execute(
            "INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?)", (*_place(self.key), self.claims.epoch, name, amount)
        )
        return int(value)


@dataclass(frozen=True)
class ReferenceTool:
    """A tool: what it takes, and what it does inside the transaction of its call."""

    name: str
    description: str
    input_schema: dict[str, Any]
    run: Callable[[dict[str, Any], Call], tools_pb2.CallToolResponse]
    read_only: bool = False


class Effects:
    """What calls did, and the results by which repeats are answered."""

    def __init__(self, file: Path | None = None) -> None:
        self.database = sqlite3.connect(file or ":memory:", isolation_level=None)
        self.database.executescript(_TABLES)

    def apply(
        self, tool: ReferenceTool, arguments: dict[str, Any], request: tools_pb2.CallToolRequest, claims: RunClaims
    ) -> tools_pb2.CallToolResponse:
        """Runs a tool unless its key has a result. Raises StaleEpoch, KeyReused."""
        key = request.idempotency_key
        self.database.execute("BEGIN IMMEDIATE")
        with self.database:
            self._fence(key.run_id, request.epoch)
            if tool.read_only:
                return tool.run(arguments, Call(claims, key, self.database))
            call = _fingerprint(request)
            kept = self.database.execute(
                "SELECT call, response FROM results WHERE (run_id, checkpoint_id, tool_call_id) = (?, ?, ?)",
                _place(key),
            ).fetchone()
            if kept:
                if kept[0] != call:
                    raise KeyReused("this key was used for another call", metadata={"tool_call_id": key.tool_call_id})
                return tools_pb2.CallToolResponse.FromString(kept[1])
            response = tool.run(arguments, Call(claims, key, self.database))
            self.database.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?)", (*_place(key), call, response.SerializeToString())
            )
            return response

    def _fence(self, run_id: str, epoch: int) -> None:
        [seen] = self.database.execute(
            "INSERT INTO epochs VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch) RETURNING epoch",
            (run_id, epoch),
        ).fetchone()
        if epoch < seen:
            raise StaleEpoch(f"run {run_id} has been claimed at epoch {seen}", metadata={"epoch": str(seen)})

    def note(self, request: tools_pb2.CallToolRequest, outcome: str) -> None:
        """Takes down that a call was tried."""
        row = (*_place(request.idempotency_key), request.epoch, request.tool, outcome)
        self.database.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", row)


class ReferenceExecutor(tools_pb2_grpc.ToolExecutorServiceServicer):
    """Serves tools over their effects; `before` is awaited ahead of each call, for tests that want it to take time."""

    def __init__(
        self,
        verifier: RunTokenVerifier,
        tools: Sequence[ReferenceTool],
        effects: Effects,
        *,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._verifier = verifier
        self._tools = {tool.name: tool for tool in tools}
        self._effects = effects
        self._before = before

    async def ListTools(self, request: tools_pb2.ListToolsRequest, context: Context) -> tools_pb2.ListToolsResponse:  # noqa: N802
        """Lists the tools."""
        del request
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        response = tools_pb2.ListToolsResponse()
        for name in sorted(self._tools):
            tool = self._tools[name]
            listed = response.tools.add(name=name, description=tool.description, read_only=tool.read_only)
            listed.input_schema.update(tool.input_schema)
        return response

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: Context) -> tools_pb2.CallToolResponse:  # noqa: N802
        """Calls a tool."""
        claims = self._verifier.verify(bearer_token(context.invocation_metadata()))
        authorize_tool(claims, request.tool)
        _check_call(request, claims)
        if request.tool not in self._tools:
            raise UnknownTool(f"there is no tool {request.tool!r}")
        if self._before:
            await self._before()
        try:
            response = self._run(self._tools[request.tool], request, claims)
        except SignalboxError as error:
            self._effects.note(request, error.reason)
            raise
        self._effects.note(request, "ok")
        return response

    def _run(
        self, tool: ReferenceTool, request: tools_pb2.CallToolRequest, claims: RunClaims
    ) -> tools_pb2.CallToolResponse:
        arguments = json_format.MessageToDict(request.arguments)
        if problem := best_match(Draft202012Validator(tool.input_schema).iter_errors(arguments)):
            return failed("invalid_arguments", problem.message)
        return self._effects.apply(tool, arguments, request, claims)


def failed(reason: str, message: str) -> tools_pb2.CallToolResponse:
    """A tool's refusal."""
    return tools_pb2.CallToolResponse(error=tools_pb2.ToolError(reason=reason, message=message))


def _check_call(request: tools_pb2.CallToolRequest, claims: RunClaims) -> None:
    key = request.idempotency_key
    if not key.run_id or not key.checkpoint_id or not 0 < len(key.tool_call_id) <= TOOL_CALL_ID_LENGTH:
        raise InvalidKey("the idempotency key needs a run, a checkpoint and a tool call id")
    if key.run_id != claims.run_id or request.epoch != claims.epoch:
        raise RunMismatch("the request names another run or epoch than its token")


def _place(key: tools_pb2.IdempotencyKey) -> tuple[str, str, str]:
    return key.run_id, key.checkpoint_id, key.tool_call_id


def _fingerprint(request: tools_pb2.CallToolRequest) -> bytes:
    return tools_pb2.CallToolRequest(tool=request.tool, arguments=request.arguments).SerializeToString(
        deterministic=True
    )


def _increment(arguments: dict[str, Any], call: Call) -> tools_pb2.CallToolResponse:
    if arguments["amount"] < 0:
        return failed("negative_amount", "counters only grow")
    value = call.count(arguments["name"], int(arguments["amount"]))
    output = tools_pb2.ToolOutput(text=f"{arguments['name']} is {value}")
    output.data.update({"value": value})
    return tools_pb2.CallToolResponse(output=output)


def _read(arguments: dict[str, Any], call: Call) -> tools_pb2.CallToolResponse:
    row = call.transaction.execute("SELECT value FROM counters WHERE name = ?", (arguments["name"],)).fetchone()
    output = tools_pb2.ToolOutput(text=f"{arguments['name']} is {row[0] if row else 0}")
    return tools_pb2.CallToolResponse(output=output)


_NAME = {"type": "string", "minLength": 1}
increment_counter = ReferenceTool(
    "increment_counter",
    "Adds to a counter.",
    {
        "type": "object",
        "properties": {"name": _NAME, "amount": {"type": "integer"}},
        "required": ["name", "amount"],
        "additionalProperties": False,
    },
    _increment,
)
read_counter = ReferenceTool(
    "read_counter",
    "Reads a counter.",
    {"type": "object", "properties": {"name": _NAME}, "required": ["name"], "additionalProperties": False},
    _read,
    read_only=True,
)
