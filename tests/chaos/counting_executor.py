"""An executor as a process of its own whose query *writes*: `python -m tests.chaos.counting_executor`.

It serves the tools of `data_chat`. `execute_db_query` adds one to the counter that the query names and answers with its
value, so a query that took effect twice gives a wrong answer. Effects are kept in a file, beside their results.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field
from signalbox.v1 import table_pb2, tools_pb2, tools_pb2_grpc

from services.kit.identity.caller import RunClaims
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.settings import ServiceSettings
from services.kit.telemetry.names import AUDIENCE_SQL_EXECUTOR
from services.kit.tools.effects import WriteCall
from services.kit.tools.executor import SERVICE_NAME
from services.kit.wire.server import Registration, Service, main
from tests.contract.reference_executor import Effects, ReferenceExecutor, ReferenceTool, count

SLOWEST_S = 0.03


class CountingSettings(ServiceSettings):
    """What the executor needs."""

    run_token_public_key_file: Path = Field(description="PEM Ed25519 key that verifies run tokens; read when needed.")
    effects_file: Path = Field(description="Where effects and results are kept.")


class LateVerifier(RunTokenVerifier):
    """Reads its key with the first token: the platform that makes the key starts after the executor.

    Its tokens may write: to the runtime a query is a tool that reads, and here it leaves a trace.
    """

    def __init__(self, key_file: Path) -> None:
        self._file = key_file
        self._read = False

    def verify(self, token: str) -> RunClaims:
        """Returns what a token says."""
        if not self._read:
            super().__init__(self._file.read_text(encoding="ascii"), AUDIENCE_SQL_EXECUTOR)
            self._read = True
        return replace(super().verify(token), writes=True)


def _arguments(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": False,
    }


def _query(arguments: dict[str, Any], transaction: sqlite3.Connection, call: WriteCall | None) -> tools_pb2.ToolOutput:
    assert call is not None
    name = arguments["query"]
    value = count(transaction, call, name, 1)
    table = table_pb2.Table(columns=[table_pb2.Column(name="value", type=table_pb2.COLUMN_TYPE_INT)])
    table.rows.add(values=[table_pb2.Cell(int_value=value)])
    return tools_pb2.ToolOutput(text=f"{name} is {value}", sql_query=name, table=table)


def _examples(*_: Any) -> tools_pb2.ToolOutput:
    output = tools_pb2.ToolOutput(text="no examples")
    output.data.update({"examples": [], "notes": []})
    return output


TOOLS = (
    ReferenceTool("execute_db_query", "Counts.", _arguments("query"), _query),
    ReferenceTool("get_few_shot_examples", "Gives examples.", _arguments("question"), _examples, read_only=True),
)


async def build(settings: CountingSettings, _stack: AsyncExitStack) -> Service:
    """Wires the executor; each call takes a while, so that a kill can fall before and after its effect."""

    async def while_passes() -> None:
        await asyncio.sleep(random.uniform(0, SLOWEST_S))  # noqa: S311 - spreads the moments

    servicer = ReferenceExecutor(
        LateVerifier(settings.run_token_public_key_file), TOOLS, Effects(settings.effects_file), before=while_passes
    )
    add = tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server
    return Service([Registration(add, servicer, SERVICE_NAME)])


if __name__ == "__main__":
    main("counting_executor", CountingSettings, build)
