"""The command as a process: after Ctrl-C its batch goes on, and the next one follows it."""

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
        async with asyncio.timeout(60):
            while not at.platform.runs:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == ExitCode.INTERRUPTED
        assert not at.platform.cancelled
        assert b"`signalbox batches watch" in told
        assert b"Traceback" not in told
        at.platform.gate.set()
        process = await start(at, log, repository)
        output, told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == ExitCode.FOUND
    data = json.loads(output)
    assert (data["findings"], data["failed"]) == (20, 0)
    assert set(at.platform.started.values()) == {1}
    assert b"[20/20]" in told
