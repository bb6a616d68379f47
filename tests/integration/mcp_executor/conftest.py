"""An MCP executor over gRPC, and a server for it to call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import pytest_asyncio
import yaml
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_MCP_EXECUTOR
from services.kit.wire.server import running
from services.mcp_executor.accept import main as accept
from services.mcp_executor.server import build
from services.mcp_executor.settings import McpExecutorSettings
from tests.fixtures.mcp_server import Served, serving_tickets

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

RUN = "run-1"
NAMES = ("search", "long_text", "create", "add_note", "broken", "flood", "junk", "storm")
TOOLS = {
    "search": {},
    "long_text": {},
    "create": {"effect": "writes", "key_argument": "request_id"},
    "add_note": {"effect": "writes", "name": "note"},
    "broken": {"effect": "reads"},
}


@dataclass(frozen=True)
class Executor:
    """The executor as a run sees it."""

    stub: ToolExecutorServiceAsyncStub
    keys: KeyPair

    def token(self, *, writes: bool = False, caller: Caller = Caller("27"), epoch: int = 1) -> str:  # noqa: B008 - frozen
        """Returns a run token."""
        tools = frozenset({"note", *(f"tickets_{name}" for name in NAMES)})
        claims = RunClaims(caller, RUN, "support", tools, epoch, writes)
        return RunTokenMinter(self.keys.private_pem).mint(claims, AUDIENCE_MCP_EXECUTOR)

    async def listed(self) -> dict[str, tools_pb2.Tool]:
        """Returns the tools by name."""
        metadata = (bearer_metadata(self.token()),)
        return {
            tool.name: tool
            for tool in (await self.stub.ListTools(tools_pb2.ListToolsRequest(), metadata=metadata)).tools
        }

    async def call(
        self,
        tool: str,
        *,
        call_id: str = "c1",
        writes: bool = False,
        subject: str = "27",
        caller: Caller | None = None,
        **arguments: Any,
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool."""
        key = tools_pb2.IdempotencyKey(run_id=RUN, checkpoint_id="k", tool_call_id=call_id)
        request = tools_pb2.CallToolRequest(tool=tool, idempotency_key=key, epoch=1)
        request.arguments.update(arguments)
        metadata = (bearer_metadata(self.token(writes=writes, caller=caller or Caller(subject))),)
        return await self.stub.CallTool(request, metadata=metadata, timeout=30)


@pytest.fixture(scope="session")
def keys() -> KeyPair:
    """Keys of run tokens."""
    return generate_keypair()


@pytest_asyncio.fixture
async def tickets() -> AsyncIterator[Served]:
    """A server of tickets."""
    async with serving_tickets() as served:
        yield served


def write_servers(folder: Path, **server: Any) -> Path:
    """Writes the file of one server, `tickets`, with all its tools."""
    file = folder / "servers.yaml"
    file.write_text(yaml.safe_dump({"servers": {"tickets": {"tools": TOOLS, **server}}}))
    return file


async def accepted(file: Path, *options: str) -> int:
    """Has all tools of a file accepted; returns the command's exit status."""
    return await asyncio.to_thread(accept, [str(file), "--accept", *options])


@asynccontextmanager
async def executing(file: Path, keys: KeyPair, **settings: Any) -> AsyncIterator[Executor]:
    """Serves an executor over the servers of a file."""
    public = file.with_name("public.pem")
    public.write_text(keys.public_pem)
    given = {"mcp_servers": file, "run_token_public_key_file": public, "mcp_connect_timeout_s": 60, **settings}
    async with (
        running("mcp_executor", McpExecutorSettings(**given), build) as executor,
        grpc.aio.insecure_channel(executor.address) as channel,
    ):
        yield Executor(tools_pb2_grpc.ToolExecutorServiceStub(channel), keys)


def found(response: tools_pb2.CallToolResponse) -> list[str]:
    """The tickets that a search found."""
    lines = response.output.text.splitlines()
    assert response.HasField("output"), response
    return lines
