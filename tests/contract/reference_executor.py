"""The smallest executor that keeps the contract of tools that write: counters in a file.

    executor = ReferenceExecutor(RunTokenVerifier(public_pem, audience), [increment_counter], Effects(file))

The kit's `WritingToolExecutor` does what is the same for all; here is what it asks of a database: a call's effect, its
result and its epoch in one transaction, which begins with a second look at what was seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from signalbox.v1 import tools_pb2

from services.kit.errors import SignalboxError
from services.kit.identity.caller import Caller
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.tools.effects import (
    Journal,
    Kept,
    Overtaken,
    Seen,
    WriteCall,
    WritingTool,
    WritingToolExecutor,
    plain,
)
from services.kit.tools.executor import Context, ServedTool, ToolRefused

_TABLES = """
    CREATE TABLE IF NOT EXISTS epochs (run_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS results (
        run_id TEXT, operation_id TEXT, fingerprint TEXT NOT NULL, response BLOB NOT NULL,
        PRIMARY KEY (run_id, operation_id));
    CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS effects (run_id TEXT, operation_id TEXT, epoch INTEGER, counter TEXT, amount INTEGER);
    CREATE TABLE IF NOT EXISTS attempts (
        run_id TEXT, checkpoint_id TEXT, tool_call_id TEXT, epoch INTEGER, tool TEXT, outcome TEXT);
"""
Run = Callable[[dict[str, Any], sqlite3.Connection, WriteCall | None], tools_pb2.ToolOutput]


@dataclass(frozen=True)
class ReferenceTool:
    """A tool: what it takes, and what it does inside the transaction of its call, or, if it reads, without one."""

    name: str
    description: str
    input_schema: dict[str, Any]
    run: Run
    read_only: bool = False

    def checked(self, arguments: struct_pb2.Struct) -> dict[str, Any]:
        """Returns arguments that fit. Raises ToolRefused."""
        values = plain(arguments)
        if problem := best_match(Draft202012Validator(self.input_schema).iter_errors(values)):
            raise ToolRefused("invalid_arguments", problem.message)
        return values


class Effects:
    """What calls did, and the results by which repeats are answered; as many processes as like may share the file."""

    def __init__(self, file: Path) -> None:
        self.database = sqlite3.connect(file, isolation_level=None, timeout=60)
        self.database.executescript(_TABLES)

    async def look_up(self, call: WriteCall) -> Seen:
        """Returns what is known of a call."""
        found = self._one(
            "SELECT fingerprint, response FROM results WHERE (run_id, operation_id) = (?, ?)",
            (call.run_id, call.operation_id),
        )
        kept = Kept(found[0], tools_pb2.CallToolResponse.FromString(found[1])) if found else None
        return Seen(self._epoch(call), kept)

    async def keep(self, call: WriteCall, response: tools_pb2.CallToolResponse) -> None:
        """Keeps the result of a call without effect. Raises Overtaken."""
        with self.transaction(call):
            self.record(call, response)

    async def fence(self, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is the highest."""
        self.database.execute(
            "INSERT INTO epochs VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",
            (call.run_id, call.epoch),
        )

    def transaction(self, call: WriteCall) -> sqlite3.Connection:
        """Begins the transaction of a call; it ends with the context. Raises Overtaken."""
        self.database.execute("BEGIN IMMEDIATE")
        taken = self._one(
            "SELECT 1 FROM results WHERE (run_id, operation_id) = (?, ?)", (call.run_id, call.operation_id)
        )
        if taken or self._epoch(call) > call.epoch:
            self.database.execute("ROLLBACK")
            raise Overtaken
        return self.database

    def record(self, call: WriteCall, response: tools_pb2.CallToolResponse) -> None:
        """Keeps result and epoch, inside the transaction of a call."""
        self.database.execute(
            "INSERT INTO epochs VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = excluded.epoch",
            (call.run_id, call.epoch),
        )
        self.database.execute(
            "INSERT INTO results VALUES (?, ?, ?, ?)",
            (call.run_id, call.operation_id, call.fingerprint, response.SerializeToString()),
        )

    def note(self, request: tools_pb2.CallToolRequest, outcome: str) -> None:
        """Takes down that a call was tried."""
        key = request.idempotency_key
        row = (key.run_id, key.checkpoint_id, key.tool_call_id, request.epoch, request.tool, outcome)
        self.database.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", row)

    def _epoch(self, call: WriteCall) -> int:
        found = self._one("SELECT epoch FROM epochs WHERE run_id = ?", (call.run_id,))
        return int(found[0]) if found else 0

    def _one(self, statement: str, parameters: tuple[Any, ...]) -> Any:
        with closing(self.database.execute(statement, parameters)) as rows:
            return rows.fetchone()


class _Served:
    def __init__(self, tool: ReferenceTool, effects: Effects) -> None:
        self.name = tool.name
        self.description = tool.description
        self.input_schema = tool.input_schema
        self.tool = tool
        self.effects = effects


class _Reading(_Served):
    async def call(self, arguments: struct_pb2.Struct, _caller: Caller) -> tools_pb2.ToolOutput:
        return self.tool.run(self.tool.checked(arguments), self.effects.database, None)


class _Writing(_Served):
    async def apply(self, arguments: struct_pb2.Struct, call: WriteCall) -> tools_pb2.CallToolResponse:
        checked = self.tool.checked(arguments)
        with self.effects.transaction(call) as transaction:
            response = tools_pb2.CallToolResponse(output=self.tool.run(checked, transaction, call))
            self.effects.record(call, response)
        return response


class ReferenceExecutor(WritingToolExecutor):
    """Serves tools over their effects; `before` is awaited ahead of each call, for tests that want it to take time.

    `around` is given the journal and each tool that writes, for tests that stand between the steps of a call.
    """

    def __init__(
        self,
        verifier: RunTokenVerifier,
        tools: Sequence[ReferenceTool],
        effects: Effects,
        *,
        before: Callable[[], Awaitable[None]] | None = None,
        around: Callable[[Any], Any] = lambda part: part,
    ) -> None:
        reading: list[ServedTool] = [_Reading(tool, effects) for tool in tools if tool.read_only]
        writing: list[WritingTool] = [around(_Writing(tool, effects)) for tool in tools if not tool.read_only]
        journal: Journal = around(effects)
        super().__init__(reading, writing, journal, verifier)
        self._effects = effects
        self._before = before

    async def CallTool(self, request: tools_pb2.CallToolRequest, context: Context) -> tools_pb2.CallToolResponse:  # noqa: N802
        """Calls a tool, and takes down that it was called."""
        if self._before:
            await self._before()
        try:
            response = await super().CallTool(request, context)
        except SignalboxError as error:
            self._effects.note(request, error.reason)
            raise
        self._effects.note(request, "ok")
        return response


def _increment(
    arguments: dict[str, Any], transaction: sqlite3.Connection, call: WriteCall | None
) -> tools_pb2.ToolOutput:
    if arguments["amount"] < 0:
        raise ToolRefused("negative_amount", "counters only grow")
    if arguments["amount"] == 0:
        raise ToolRefused("amount_later", "nothing to add yet", retryable=True)
    assert call is not None
    value = count(transaction, call, arguments["name"], int(arguments["amount"]))
    output = tools_pb2.ToolOutput(text=f"{arguments['name']} is {value}")
    output.data.update({"value": value})
    return output


def count(transaction: sqlite3.Connection, call: WriteCall, name: str, amount: int) -> int:
    """Adds to a counter and returns its value."""
    statement = (
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value RETURNING value"
    )
    with closing(transaction.execute(statement, (name, amount))) as rows:
        [value] = rows.fetchone()
    effect = (call.run_id, call.operation_id, call.epoch, name, amount)
    transaction.execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?)", effect)
    return int(value)


def _read(arguments: dict[str, Any], database: sqlite3.Connection, _call: WriteCall | None) -> tools_pb2.ToolOutput:
    row = database.execute("SELECT value FROM counters WHERE name = ?", (arguments["name"],)).fetchone()
    return tools_pb2.ToolOutput(text=f"{arguments['name']} is {row[0] if row else 0}")


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
