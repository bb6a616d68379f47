"""A platform that a test tells what to do, a client of it, and a repository with findings."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from signalbox.v1 import agents_pb2_grpc, runs_pb2_grpc, sast_pb2

from services.cli.client import Connection, GatewayClient, open_gateway
from tests.integration.findings.fake_platform import FakeAgents, FakePlatform

CODE = "import subprocess\n\n\ndef run(name):\n    subprocess.run(name, shell=True)\n" + "run(1)\n" * 20


@dataclass
class Serving:
    """A fake platform, and how to reach it."""

    platform: FakePlatform
    connection: Connection
    gateway: GatewayClient


@asynccontextmanager
async def serving(platform: FakePlatform) -> AsyncIterator[Serving]:
    """Serves a platform on a free port."""
    server = grpc.aio.server()
    runs_pb2_grpc.add_RunServiceServicer_to_server(platform, server)
    agents_pb2_grpc.add_AgentServiceServicer_to_server(FakeAgents(platform), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        connection = Connection(f"127.0.0.1:{port}", "token")
        async with open_gateway(connection) as gateway:
            yield Serving(platform, connection, gateway)
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


def findings(count: int) -> list[sast_pb2.Finding]:
    """As many findings, each on a line of its own."""
    return [
        sast_pb2.Finding(
            fingerprint=f"f{number}",
            rule_id="B602",
            cwe="CWE-78",
            location=sast_pb2.CodeLocation(file="src/app.py", first_line=number + 1),
        )
        for number in range(count)
    ]


class Recorder:
    """A progress that remembers."""

    def __init__(self, on_done: Callable[[int], Any] = lambda _: None) -> None:
        self.finished: list[str] = []
        self.said: list[str] = []
        self._on_done = on_done

    def started(self, finding: sast_pb2.Finding) -> None:
        """Nothing to remember."""

    def done(self, finding: sast_pb2.Finding, outcome: Any) -> None:  # noqa: ARG002 - the protocol's
        self.finished.append(finding.fingerprint)
        self._on_done(len(self.finished))

    def say(self, message: str) -> None:
        self.said.append(message)
