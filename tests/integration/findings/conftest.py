"""A platform that a test tells what to do, and a repository with findings."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from signalbox.v1 import agents_pb2_grpc, batches_pb2_grpc, runs_pb2_grpc

from services.cli.client import Connection
from tests.integration.findings.fake_platform import FakeAgents, FakeBatches, FakePlatform

CODE = "import subprocess\n\n\ndef run(name):\n    subprocess.run(name, shell=True)\n" + "run(1)\n" * 20


@dataclass
class Serving:
    """A fake platform, and how to reach it."""

    platform: FakePlatform
    batches: FakeBatches
    connection: Connection


@asynccontextmanager
async def serving(platform: FakePlatform) -> AsyncIterator[Serving]:
    """Serves a platform on a free port."""
    server = grpc.aio.server()
    batches = FakeBatches(platform)  # type: ignore[abstract]
    runs_pb2_grpc.add_RunServiceServicer_to_server(platform, server)
    batches_pb2_grpc.add_BatchServiceServicer_to_server(batches, server)
    agents_pb2_grpc.add_AgentServiceServicer_to_server(FakeAgents(platform), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Serving(platform, batches, Connection(f"127.0.0.1:{port}", "token"))
    finally:
        await server.stop(None)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text(CODE)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return root
