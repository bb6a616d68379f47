"""The command as a process: Ctrl-C cancels what it started, and the next one goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from services.cli.exit_codes import ExitCode
from tests.integration.findings.conftest import Serving, serving
from tests.integration.findings.fake_platform import FakePlatform


async def start(at: Serving, log: Path, repository: Path) -> asyncio.subprocess.Process:
    arguments = ["--gateway", at.connection.address, "investigate", str(log), "--repo", str(repository), "--json"]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", *arguments, "--fail-on", "true_positive",
        env={**os.environ, "SIGNALBOX_TOKEN": "token"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_interrupted_and_given_again(repository: Path, tmp_path: Path) -> None:
    log = tmp_path / "findings.json"
    log.write_text(json.dumps([{"rule": "B602", "file": "src/app.py", "line": line} for line in range(1, 21)]))
    async with serving(FakePlatform()) as at:
        at.platform.gate.clear()
        process = await start(at, log, repository)
        await at.platform.wait_for_watchers(8)
        process.send_signal(signal.SIGINT)
        _, told = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == ExitCode.INTERRUPTED
        assert len(at.platform.cancelled) == 8
        assert b"8 runs cancelled" in told
        assert b"Traceback" not in told
        at.platform.gate.set()
        process = await start(at, log, repository)
        output, told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == ExitCode.FOUND
    data = json.loads(output)
    assert (data["findings"], data["failed"]) == (20, 0)
    assert b"[20/20]" in told
