"""Commands of the runtime that `signalbox` runs: what they say comes when they say it, and they end with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.exit_codes import ExitCode
from services.cli.runtime_command import runtime_command
from services.cli.terminal import Terminal
from services.local.settings import inherited_environment

TIMEOUT_S = 120
# Says something on both streams, not all of it text, and waits until that has arrived.
SLOW = r"""
import pathlib, sys, time
sys.stdout.buffer.write(b"Z\xc3\xbcrich \xff\n")
sys.stderr.write("a remark \udc80\n")
sys.stdout.flush()
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("the end")
raise SystemExit(2)
"""


@dataclass(frozen=True)
class Heard(Terminal):
    """Writes nowhere; the file is made once something was said on both streams."""

    arrived: Path = Path()
    results: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def raw(self, text: str) -> None:
        self.results.append(text)
        self._tell()

    def remark(self, text: str) -> None:
        self.remarks.append(text)
        self._tell()

    def _tell(self) -> None:
        if self.results and self.remarks:
            self.arrived.touch()


async def test_what_a_command_says_comes_when_it_says_it(tmp_path: Path) -> None:
    (tmp_path / "slow_speaker.py").write_text(SLOW, encoding="utf-8")
    terminal = Heard(arrived=tmp_path / "arrived")
    async with asyncio.timeout(TIMEOUT_S):
        environment = {"PYTHONPATH": str(tmp_path)}
        status = await runtime_command("slow_speaker", environment, terminal, str(terminal.arrived))
    assert status == ExitCode.USAGE
    assert "".join(terminal.results) == "Zürich \\xff\nthe end\n"
    assert "".join(terminal.remarks) == "a remark \\udc80\n"


def test_ctrl_c_ends_it_without_a_word() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "services.cli", "prove"], env=inherited_environment(), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        children = first_children_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (ExitCode.INTERRUPTED, b"", b"")
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def first_children_of(pid: int) -> list[str]:
    """The ids of a process's children, once it has any."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if children := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            return children
        time.sleep(0.01)
    raise AssertionError("it has started no process")
