"""A code executor over gRPC, and repositories for it to read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import json_format
from signalbox.v1 import code_reading_pb2, tools_pb2, tools_pb2_grpc

from services.code_executor.server import build
from services.code_executor.settings import CodeExecutorSettings
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_CODE_EXECUTOR
from services.kit.wire.server import running
from tests.integration.code_executor.git_repository import GitRepository

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

RUN = "run-1"
TOOLS = frozenset({"fetch_code", "read_file", "search_codebase", "list_directory", "find_file"})


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    readings: list[code_reading_pb2.CodeReading] = field(default_factory=list)
    reason: str = ""
    message: str = ""
    retryable: bool = False


@dataclass(frozen=True)
class Executor:
    """The executor as a run sees it."""

    stub: ToolExecutorServiceAsyncStub
    keys: KeyPair
    cache: Path

    def token(self, *, ttl_s: int = 600, **claims: Any) -> str:
        """Returns a run token."""
        defaults = {"caller": Caller("27"), "run_id": RUN, "agent": "sast_triage", "tools": TOOLS, "epoch": 1}
        return RunTokenMinter(self.keys.private_pem, ttl_s=ttl_s).mint(
            RunClaims(**{**defaults, **claims}), AUDIENCE_CODE_EXECUTOR
        )

    async def call_raw(
        self, tool: str, arguments: dict[str, Any], *, token: str | None = None, **request: Any
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool and returns the response."""
        key = tools_pb2.IdempotencyKey(run_id=RUN, checkpoint_id="checkpoint-1", tool_call_id="call-1")
        message = tools_pb2.CallToolRequest(**{"tool": tool, "idempotency_key": key, "epoch": 1, **request})
        message.arguments.update(arguments)
        return await self.stub.CallTool(message, metadata=(bearer_metadata(token or self.token()),), timeout=120)

    async def call(self, tool: str, repository: GitRepository | str, commit: str, /, **arguments: Any) -> Answer:
        """Calls a tool on a commit."""
        address = repository if isinstance(repository, str) else str(repository.path)
        source = {"repository": address, "commit": commit}
        response = await self.call_raw(tool, {"source": source, **arguments})
        if response.HasField("error"):
            error = response.error
            return Answer(reason=error.reason, message=error.message, retryable=error.retryable)
        output = response.output
        data = json_format.MessageToDict(output.data)
        return Answer(output.text, data, output.truncated, list(output.code_readings))


MakeExecutor = Callable[..., AbstractAsyncContextManager[Executor]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder under which repositories may be read."""
    return tmp_path / "repositories"


@pytest.fixture
def repository(root: Path) -> GitRepository:
    """An empty repository."""
    return GitRepository(root / "project")


@pytest.fixture
def make_executor(tmp_path: Path, root: Path) -> MakeExecutor:
    """Starts an executor with other settings than usual."""

    @asynccontextmanager
    async def make(**settings: Any) -> AsyncIterator[Executor]:
        keys = generate_keypair()
        public_key = tmp_path / "run_token.pem"
        public_key.write_text(keys.public_pem)
        usual = {
            "run_token_public_key_file": public_key,
            "code_local_roots": (root,),
            "code_cache_dir": tmp_path / "cache",
        }
        chosen = CodeExecutorSettings(**{**usual, **settings})
        async with (
            running("code_executor", chosen, build) as served,
            grpc.aio.insecure_channel(served.address) as channel,
        ):
            yield Executor(tools_pb2_grpc.ToolExecutorServiceStub(channel), keys, chosen.code_cache_dir)

    return make


@pytest.fixture
async def executor(make_executor: MakeExecutor) -> AsyncIterator[Executor]:
    """An executor with the usual settings."""
    async with make_executor() as made:
        yield made
