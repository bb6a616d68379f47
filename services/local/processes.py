"""Service processes of one machine: start, wait until ready, watch, stop, and show why one failed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.local.concurrency import together
from services.local.fork_server import ForkedProcess, ForkServer
from services.local.ports import HeldPorts
from services.local.tether import TETHER

POLL_INTERVAL_S = 0.02
LOG_TAIL_LINES = 25
_LISTENING = ("SIGNALBOX_LISTEN", "SIGNALBOX_METRICS_LISTEN")
_ANY_PORT = "127.0.0.1:0"

_Process = asyncio.subprocess.Process | ForkedProcess


class ProcessError(Exception):
    """A process did not do what was asked of it; the message holds the end of its log."""


class StartFailed(ProcessError):
    """A process ended, or stayed silent, before it was ready."""


class CommandFailed(ProcessError):
    """A program that should have run to its end failed or took too long."""


@dataclass(frozen=True)
class Ready:
    """What a service wrote into its ready file: where it listens."""

    listen: str
    metrics: str


@dataclass(frozen=True)
class Program:
    """How to start a process: its name in messages, its arguments after the interpreter, and its whole environment."""

    name: str
    arguments: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


class ServiceProcess:
    """One process that is to keep running.

    It runs in a session of its own, so that a Ctrl-C in the terminal reaches the launcher only and services stop in
    order. It ends with its launcher (see `tether.py`).
    """

    def __init__(
        self, program: Program, directory: Path, *, ready_timeout_s: float = 30.0, forks: ForkServer | None = None
    ) -> None:
        self.name = program.name
        self.log_file = directory / f"{program.name}.log"
        self._program = program
        self._ready_file = directory / f"{program.name}.ready.json"
        self._ready_timeout_s = ready_timeout_s
        self._forks = forks
        self._process: _Process | None = None
        self._ready: Ready | None = None
        self._ports = HeldPorts()

    @property
    def program(self) -> Program:
        """What it starts."""
        return self._program

    @property
    def pid(self) -> int:
        """Process id of the running process."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        """Exit status; None while it runs or before it was started."""
        return None if self._process is None else self._process.returncode

    @property
    def ready(self) -> Ready:
        """Addresses from the last start."""
        if self._ready is None:
            raise ProcessError(f"{self.name} has not been ready yet")
        return self._ready

    async def start(self) -> Ready:
        """Starts the process and waits until it has written its ready file.

        A repeated start listens where the first one did, so that the others find it again; meanwhile nobody else is
        given its ports.
        Raises `StartFailed` when it ends first or is not ready in time.
        """
        if self.running:
            raise ProcessError(f"{self.name} is running already (pid {self.pid})")
        self._ready_file.unlink(missing_ok=True)
        env = {**self._program.env, **self._listening(), "SIGNALBOX_READY_FILE": str(self._ready_file)}
        self._process = await _spawn(replace(self._program, env=env), self.log_file, self._forks)
        try:
            self._ready = await self._wait_until_ready(self._process)
        except BaseException:
            await self.kill()
            raise
        return self._ready

    async def restart(self, *, grace_s: float = 20.0) -> Ready:
        """Stops the process, if it runs, and starts it again at the same address."""
        await self.stop(grace_s=grace_s)
        return await self.start()

    async def stop(self, *, grace_s: float = 20.0) -> None:
        """Asks the process to end (SIGTERM), kills it when the grace is over, and returns once it is gone."""
        if self._process is None:
            return
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Ends the process at once (SIGKILL) and returns once it is gone."""
        if self._process is None:
            return
        self.signal(signal.SIGKILL)
        await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens when the process has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def wait(self) -> int:
        """Waits for the process to end and returns its exit status."""
        return await self._running().wait()

    def logs(self) -> str:
        """Everything the process wrote to its standard output and error, earlier starts included."""
        return read_log(self.log_file)

    def _running(self) -> _Process:
        if self._process is None:
            raise ProcessError(f"{self.name} was not started")
        return self._process

    def _listening(self) -> dict[str, str]:
        """Where it is to listen, as settings say it."""
        if self._ready is None:
            places = [self._program.env.get(setting, _ANY_PORT) for setting in _LISTENING]
        else:
            places = [self._ready.listen, self._ready.metrics]
        return dict(zip(_LISTENING, map(self._ports.hold, places), strict=True))

    async def _wait_until_ready(self, process: _Process) -> Ready:
        try:
            async with asyncio.timeout(self._ready_timeout_s):
                while process.returncode is None:
                    if self._ready_file.exists():
                        return parse_ready(self._ready_file)
                    await asyncio.sleep(POLL_INTERVAL_S)
        except TimeoutError as e:
            raise StartFailed(
                f"{self.name} was not ready after {self._ready_timeout_s:g} s{describe_log(self.log_file)}"
            ) from e
        raise StartFailed(
            f"{self.name} ended with status {process.returncode} before it was ready{describe_log(self.log_file)}"
        )


async def run_to_end(program: Program, directory: Path, *, timeout_s: float, forks: ForkServer | None = None) -> str:
    """Runs a program to its end and returns what it wrote.

    Raises `CommandFailed` with the end of its output when it fails or takes longer than `timeout_s`.
    """
    log_file = directory / f"{program.name}.log"
    process = await _spawn(program, log_file, forks)
    try:
        async with asyncio.timeout(timeout_s):
            status = await process.wait()
    except TimeoutError as e:
        raise CommandFailed(f"{program.name} took longer than {timeout_s:g} s{describe_log(log_file)}") from e
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if status != 0:
        raise CommandFailed(f"{program.name} ended with status {status}{describe_log(log_file)}")
    return read_log(log_file)


async def stop_all(groups: Sequence[Sequence[ServiceProcess]], *, grace_s: float) -> None:
    """Stops groups of processes one after another, the last first: callers go before those they call."""
    for group in reversed(groups):
        await together(*(process.stop(grace_s=grace_s) for process in group))


def parse_ready(path: Path) -> Ready:
    """Reads a ready file; raises `StartFailed` when it is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Ready(listen=str(content["listen"]), metrics=str(content.get("metrics", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise StartFailed(f"{path} is not a ready file: {e!r}") from e


def read_log(path: Path) -> str:
    """A log file's text; empty when there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def describe_log(path: Path) -> str:
    """The end of a log, to follow a sentence about what failed."""
    lines = read_log(path).splitlines()[-LOG_TAIL_LINES:]
    if not lines:
        return "; it wrote nothing"
    return f". The end of {path}:\n" + "\n".join(f"  {line}" for line in lines)


async def _spawn(program: Program, log_file: Path, forks: ForkServer | None) -> _Process:
    # The parent-death signal follows the thread that forks: call this from the thread that lives longest, the main one.
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if forks is not None and forks.takes(program.arguments, program.env):
            return await forks.spawn(program.arguments, program.env, program.name, descriptor)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", TETHER, str(os.getpid()), "--", sys.executable),
            *program.arguments,
            env=dict(program.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
