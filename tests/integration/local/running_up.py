"""`signalbox up` as the process that a person would start, and commands beside it."""

from __future__ import annotations

import asyncio
import errno
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from services.local.tether import TETHER
from tests.fixtures.forked import program
from tests.fixtures.patience import START_TIMEOUT_S

COMMAND = (sys.executable, "-m", "services.cli")
# A platform ends with the tests that started it, also when they are killed.
TETHERED = (sys.executable, "-I", "-S", TETHER, str(os.getpid()), "--")


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote."""

    status: int
    out: str
    err: str


@dataclass
class Up:
    """A running `signalbox up`."""

    process: asyncio.subprocess.Process
    runtime_dir: Path
    env: dict[str, str]
    greeting: list[str]
    said: list[str]
    listening: asyncio.Task[None]

    async def run(self, *arguments: str, **env: str) -> Result:
        """Runs another command beside it."""
        process = await asyncio.create_subprocess_exec(
            *program("services.cli"), *arguments, env={**self.env, **env},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())

    async def run_on_terminal(self, *arguments: str, columns: int = 80) -> list[str]:
        """Runs another command on a terminal of a width; returns the lines on its screen."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        env = {name: value for name, value in self.env.items() if name != "COLUMNS"} | {"TERM": "xterm"}
        with os.fdopen(ours, "rb", buffering=0) as screen:
            process = await asyncio.create_subprocess_exec(*program("services.cli"), *arguments, env=env, stdout=theirs)
            os.close(theirs)
            shown = await asyncio.to_thread(_read_screen, screen)
            assert await process.wait() == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()

    async def says(self, words: str) -> None:
        """Waits until it has said this, on its standard error."""
        async with asyncio.timeout(START_TIMEOUT_S):
            while not any(words in line for line in self.said):  # noqa: ASYNC110 - another process's words
                await asyncio.sleep(0.05)

    async def end(self, kind: signal.Signals) -> int:
        """Sends a signal and waits for the end; returns its status."""
        if self.process.returncode is None:
            self.process.send_signal(kind)
        status = await asyncio.wait_for(self.process.wait(), 120)
        await self.listening
        return status


async def start_up(
    runtime_dir: Path, *options: str, replicas: int = 2, command: str = "up", cwd: Path | None = None, **settings: str
) -> Up:
    """Starts `signalbox up`, or `dev`, and waits until it says that it is."""
    named = ["up", "--replicas", str(replicas)] if command == "up" else [command]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SIGNALBOX_", "OPENAI_"))}
    env = {**ours, "COLUMNS": "80", **settings, "SIGNALBOX_RUNTIME_DIR": str(runtime_dir)}
    process = await asyncio.create_subprocess_exec(
        *TETHERED, *COMMAND, *named, *options, env=env, cwd=cwd,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    greeting = [(await process.stdout.readline()).decode()]
    if "Signalbox is up" not in greeting[0]:
        pytest.fail(f"it did not come up: {(await process.stderr.read()).decode()}")
    while not greeting[-1].startswith("stop:"):
        greeting.append((await process.stdout.readline()).decode())
    said: list[str] = []
    return Up(process, runtime_dir, env, greeting, said, asyncio.create_task(_note(process.stderr, said.append)))


def _read_screen(screen: BinaryIO) -> bytes:
    shown = b""
    try:
        while part := screen.read(65536):
            shown += part
    except OSError as error:  # how a terminal says that its last process has left
        if error.errno != errno.EIO:
            raise
    return shown


async def _note(stream: asyncio.StreamReader, note: Callable[[str], None]) -> None:
    async for line in stream:
        note(line.decode())


def processes_of(up: Up) -> list[int]:
    """Services that this `up` started and that live: those that write to a log in its directory."""
    found = []
    for output in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if output.readlink().is_relative_to(up.runtime_dir):
                found.append(int(output.parts[2]))
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def all_gone(pids: list[int]) -> None:
    async with asyncio.timeout(120):
        while any(lives(pid) for pid in pids):  # noqa: ASYNC110 - their end has no event here
            await asyncio.sleep(0.05)
