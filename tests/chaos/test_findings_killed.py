"""Findings of a log while the command, batches, the gateway and every runtime are killed: each is judged once.

`make findings-test FINDINGS=10000` runs it with as many as that, and prints what it took.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from signalbox.v1 import batches_pb2, runs_pb2

from examples.harbour import repository as portal
from services.cli.batch_exports import without_run_ids
from services.cli.client import Connection
from tests.chaos.batches import reached, results
from tests.chaos.deployment import kill_and_start
from tests.fixtures.forked import program
from tests.fixtures.stack import Platform, platform, world

FINDINGS = int(os.environ.get("SIGNALBOX_CHAOS_FINDINGS", "200"))
KILLS = 3
SUBJECT = "27"
# What one finding may take, on a machine that does other things, too.
PATIENCE_S = 60.0 + FINDINGS * 3.0


@dataclass(frozen=True)
class Command:
    """`signalbox investigate` as somebody types it, who has no patience."""

    running: Platform
    log: Path
    repository: str

    @property
    def connection(self) -> Connection:
        """The platform, by a token that has not expired: all of it takes longer than one lives."""
        return Connection(self.running.stack.gateway_address, self.running.stack.token(SUBJECT))

    async def investigate(self, name: str, out: Path) -> asyncio.subprocess.Process:
        """Types it."""
        env = {
            "PATH": os.environ["PATH"],
            "SIGNALBOX_GATEWAY": self.running.stack.gateway_address,
            "SIGNALBOX_TOKEN": self.running.stack.token(SUBJECT),
            "SIGNALBOX_RUNTIME_DIR": str(self.log.parent / "nowhere"),
        }
        arguments = ("investigate", str(self.log), "--repo", self.repository, "--batch", name, "--out", str(out))
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *program("services.cli"), *arguments, env=env, stdout=quiet, stderr=quiet
        )


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
async def test_every_finding_is_judged_once_and_the_results_are_the_same_bytes(tmp_path: Path) -> None:
    made = portal.create(tmp_path / "service")
    log = tmp_path / "bandit.sarif"
    await asyncio.to_thread(scanned, made.path, log)
    async with (
        world() as data,
        platform(data, code_agents=True, code_roots=(tmp_path,), batches=True, runtime_replicas=2) as running,
    ):
        command = Command(running, log, made.path)
        began, used = time.monotonic(), cpu_s()
        undisturbed = await command.investigate("undisturbed", tmp_path / "undisturbed.sarif")
        assert await undisturbed.wait() == 0
        print(f"undisturbed: {time.monotonic() - began:.0f} s, {cpu_s() - used:.0f} s of CPU")  # noqa: T201
        first = await reached(command.connection, "undisturbed", FINDINGS, timeout_s=PATIENCE_S)

        began = time.monotonic()
        typing = await command.investigate("disturbed", tmp_path / "disturbed.sarif")
        for kill in range(KILLS):
            batch = await reached(
                command.connection, "disturbed", (kill + 1) * FINDINGS // (KILLS + 2), timeout_s=PATIENCE_S
            )
            typing.kill()
            await typing.wait()
            stack = running.stack
            for service in [*stack.runtimes, stack.service("batches"), stack.service("gateway")]:
                await kill_and_start(service)
            typing = await command.investigate("disturbed", tmp_path / "disturbed.sarif")
        assert await typing.wait() == 0
        print(f"disturbed: {time.monotonic() - began:.0f} s")  # noqa: T201
        last = await reached(command.connection, "disturbed", FINDINGS, timeout_s=PATIENCE_S)
        assert (last.batch_id, last.state) == (batch.batch_id, batches_pb2.BATCH_STATE_ENDED)
        assert await results(command.connection, last.batch_id) == await results(command.connection, first.batch_id)
        assert without_runs(tmp_path / "disturbed.sarif") == without_runs(tmp_path / "undisturbed.sarif")

        caller = running.caller(SUBJECT)
        pages = await caller.run_pages(runs_pb2.ListRunsRequest(page_size=500, labels={"batch": last.batch_id}))
        runs = Counter(run.run_id for page in pages for run in page)
        assert (len(runs), runs.total()) == (FINDINGS, FINDINGS)
        taken_over = [run for page in pages for run in page if run.epoch > 1]
        assert taken_over, "no run was ever taken over: the kills hit nothing"
        for run in taken_over:
            decisions = await caller.decisions(run.run_id)
            assert [decision.sequence for decision in decisions] == list(range(1, len(decisions) + 1))
