"""Findings of a log while the command and every service but the model are killed: each is judged once.

`make findings-test FINDINGS=10000` runs it with as many as that, and prints what it took.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.harbour import repository as portal
from services.cli.batch_exports import without_run_ids
from tests.chaos.batches import Waiting
from tests.chaos.conftest import Extent
from tests.fixtures.stack import platform, world

FINDINGS = int(os.environ.get("SIGNALBOX_CHAOS_FINDINGS", "200"))
# What one finding may take, on a machine that does other things, too.
PATIENCE_S = 60.0 + FINDINGS * 3.0


def scanned(repository: str, log: Path) -> None:
    """Writes what Bandit reports, over and over, each time as a finding of its own."""
    arguments = ["-q", "-r", repository, "-f", "sarif", "-o", str(log), "--exit-zero"]
    subprocess.run([sys.executable, "-m", "bandit", *arguments], check=True, timeout=120)
    document = json.loads(log.read_text())
    [run] = document["runs"]
    run["results"] = [run["results"][n % len(run["results"])] for n in range(FINDINGS)]
    log.write_text(json.dumps(document))


def without_runs(out: Path) -> Any:
    """A log with verdicts, without what names a run."""
    return without_run_ids(json.loads(out.read_text()))


def cpu_s() -> float:
    """User and system seconds of this process and all below it that live."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@pytest.mark.timeout(2 * PATIENCE_S + 600)
async def test_every_finding_is_judged_once_and_the_results_are_the_same_bytes(tmp_path: Path, extent: Extent) -> None:
    made = portal.create(tmp_path / "service")
    log = tmp_path / "bandit.sarif"
    await asyncio.to_thread(scanned, made.path, log)

    def investigate(name: str) -> tuple[str, ...]:
        out = str(tmp_path / f"{name}.sarif")
        return "investigate", str(log), "--repo", made.path, "--batch", name, "--out", out

    async with (
        world() as data,
        platform(data, code_agents=True, code_roots=(tmp_path,), batches=True, runtime_replicas=2) as running,
    ):
        waiting = Waiting(running, FINDINGS, PATIENCE_S)
        began, used = time.monotonic(), cpu_s()
        first = await waiting.undisturbed(investigate("undisturbed"), "undisturbed")
        print(f"undisturbed: {time.monotonic() - began:.0f} s, {cpu_s() - used:.0f} s of CPU")  # noqa: T201
        began = time.monotonic()
        last = await waiting.disturbed(investigate("disturbed"), "disturbed", extent.random())
        print(f"disturbed: {time.monotonic() - began:.0f} s")  # noqa: T201
        await waiting.check(first, last)
        assert without_runs(tmp_path / "disturbed.sarif") == without_runs(tmp_path / "undisturbed.sarif")
