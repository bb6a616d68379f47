"""What docs/mcp.md says, carried out."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.fixtures.mcp_server import serving_tickets
from tests.fixtures.page import blocks
from tests.fixtures.stack import World, platform

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mcp.md"
PROGRAM = f"[{sys.executable}, -P, -m, tests.fixtures.mcp_server]\n    environment: {{PYTHONPATH: {ROOT}}}"


def block(language: str, begin: str) -> str:
    """The block of a language that has these words."""
    [found] = [text for text in blocks([language], PAGE) if begin in text]
    return found


async def shell(command: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Runs a command of the page; returns its status and what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", command, cwd=folder, env={**os.environ, "PATH": path, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_tools_of_servers_are_shown_and_accepted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("theirs")
    async with serving_tickets() as tickets:
        given = block("yaml", "notes_server")
        for words, here in (
            ("https://tickets.example.com/mcp", tickets.url),
            ("/run/secrets/tickets-token", str(tmp_path / "token")),
            ("[python, -m, notes_server]", PROGRAM),
        ):
            assert words in given
            given = given.replace(words, here)
        (tmp_path / "servers.yaml").write_text(given)
        show, accept, _ = block("sh", "mcp-tools servers.yaml --accept").splitlines()
        status, said = await shell(show, tmp_path)
        assert (status, "tickets.create: new, writes" in said, "notes.search: new, reads" in said) == (1, True, True), (
            said
        )
        assert (await shell(accept, tmp_path))[0] == 0
        assert (await shell(show, tmp_path))[0] == 0
    assert set(tickets.tokens) == {"theirs"}


async def test_the_program_asks_an_agent_over_http(harbour: World, tmp_path: Path) -> None:
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(ROOT / "examples" / "graphs")}}
    (tmp_path / "ask.py").write_text(block("python", "# ask.py"))
    async with platform(harbour, service_env=env, http_replicas=1) as running:
        status, said = await shell(
            block("sh", "python ask.py"),
            tmp_path,
            MCP_URL=f"http://{running.stack.http_apis[0].ready.listen}/mcp",
            TOKEN=running.token("27"),
        )
    assert (status, "42" in said.splitlines()[-1], said.startswith("run ")) == (0, True, True), said
