"""The programs of docs/clients.md, written to files and run as the page says, against a platform.

Where a language's tools are missing, or have no package index, its test is skipped and says so.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.stack import Platform, World, platform

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?://|#) (\S+\.\w+)\n")
STEP_TIMEOUT_S = 1200  # tools that compile a gRPC library for the first time, on a busy machine
PROBE_TIMEOUT_S = 60
pytestmark = [pytest.mark.client_programs, pytest.mark.timeout(STEP_TIMEOUT_S + 300)]
INDEX = {
    "npm": ["npm", "view", "@grpc/grpc-js", "version"],
    "go": ["go", "list", "-m", "google.golang.org/grpc@latest"],
}


def section(title: str) -> list[tuple[str, str]]:
    """The blocks of code below a heading, each with its language."""
    [text] = [body for found, body in SECTION.findall(PAGE) if found == title]
    return BLOCK.findall(text)


def needs_index(program: str, folder: Path) -> None:
    """Skip the test unless a language's tools are here and reach their package index."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here, so the page's program for it was not run")
    try:
        found = subprocess.run(
            INDEX[program], cwd=folder, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{program} waits for its package index")
    if found.returncode != 0:
        pytest.skip(f"{program} does not reach its package index: {found.stderr.strip()[-200:]}")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def offline(harbour: World) -> AsyncIterator[Platform]:
    """A platform as `signalbox up` makes it."""
    async with platform(harbour) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a program is written, with the protos beside it."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


async def follow(title: str, folder: Path, running: Platform) -> str:
    """Writes the files of a section and runs its commands; returns what they print."""
    for language, text in section(title):
        if language != "sh" and (name := NAME.match(text)):
            (folder / name[1]).write_text(text)
    commands = "".join(text for language, text in section(title) if language == "sh")
    path = os.pathsep.join([str(Path(sys.executable).parent), str(folder / "bin"), os.environ["PATH"]])
    environment = {
        **os.environ, "PATH": path, "GOBIN": str(folder / "bin"), "GOFLAGS": "-buildvcs=false",
        "SIGNALBOX_GATEWAY": running.stack.gateway_address, "SIGNALBOX_TOKEN": running.stack.token("27"),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", commands, cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, out.decode() + err.decode()
    return out.decode()


async def test_the_python_program_prints_the_answer(offline: Platform, folder: Path) -> None:
    assert "6 devices" in await follow("Python", folder, offline)


async def test_the_typescript_program_prints_the_answer(offline: Platform, folder: Path) -> None:
    needs_index("npm", folder)
    assert "6 devices" in await follow("TypeScript", folder, offline)


async def test_the_go_program_prints_the_answer(offline: Platform, folder: Path) -> None:
    needs_index("go", folder)
    assert "6 devices" in await follow("Go", folder, offline)


async def test_a_shell_lists_runs_and_reads_error_details_by_reflection(offline: Platform, folder: Path) -> None:
    needs_index("go", folder)
    asked = await offline.caller("27").ask("Count devices with temperature > 10")
    listed = await follow("From a shell", folder, offline)
    assert asked.run.run_id in listed
    # The same with a request that is refused: the details are words, not bytes.
    refused = await asyncio.create_subprocess_exec(
        str(folder / "bin" / "grpcurl"), "-plaintext", "-H", f"authorization: Bearer {offline.stack.token('27')}",
        "-d", '{"create": {"input": {"data_chat": {"question": ""}}}}',
        offline.stack.gateway_address, "signalbox.v1.RunService/ExecuteRun",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, err = await asyncio.wait_for(refused.communicate(), 120)
    assert '"@type": "type.googleapis.com/google.rpc.ErrorInfo"' in err.decode()
    assert '"reason": "INVALID_REQUEST"' in err.decode()
    assert '"field": "create.input.data_chat.question"' in err.decode()
