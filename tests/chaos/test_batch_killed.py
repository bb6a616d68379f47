"""A batch of 500 findings while replicas of the runtime are killed: every finding has one run and one verdict."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from signalbox.v1 import runs_pb2, sast_pb2

from examples.harbour import repository as portal
from services.cli.batch_gateway import BatchGateway
from services.cli.client import Connection, open_gateway
from services.cli.investigation import investigation_input
from services.findings.investigation.batch import Batch, BatchPolicy
from services.findings.investigation.repository import open_source
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.outcome import Outcome, Source
from services.findings.sarif.paths import RepositoryPaths
from tests.chaos.deployment import kill_and_start
from tests.fixtures.stack import Platform, platform, world

FINDINGS = 500
KILLS = 6
SUBJECT = "27"
TIMEOUT_S = 600.0


class Tally:
    """Counts what a batch brings, and lets a test wait for it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._notifying: set[asyncio.Task[None]] = set()

    def started(self, finding: sast_pb2.Finding) -> None:
        """Nothing to count yet."""

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None:
        """Counts an outcome."""
        del outcome
        self.counts[finding.fingerprint] += 1
        task = asyncio.create_task(self._notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    def say(self, message: str) -> None:
        """Says nothing."""

    async def reach(self, count: int) -> None:
        """Waits for so many outcomes. Raises TimeoutError."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: self.counts.total() >= count)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def findings_of(repository: str, files: frozenset[str], log: Path) -> list[sast_pb2.Finding]:
    """What Bandit reports, over and over, each time as a finding of its own."""
    arguments = ["-q", "-r", repository, "-f", "sarif", "-o", str(log), "--exit-zero"]
    subprocess.run([sys.executable, "-m", "bandit", *arguments], check=True, timeout=120)
    document = read_document(log)
    [run] = document["runs"]
    run["results"] = [run["results"][n % len(run["results"])] for n in range(FINDINGS)]
    results = read_results(document, RepositoryPaths(root=repository, files=files))
    return [result.finding for result in results]


@pytest.mark.timeout(1500)
async def test_every_finding_has_one_run_and_one_verdict(tmp_path: Path) -> None:
    made = portal.create(tmp_path / "service")
    source = await open_source(made.path, made.commit)
    findings = await asyncio.to_thread(findings_of, made.path, source.files, tmp_path / "bandit.sarif")
    assert len({finding.fingerprint for finding in findings}) == FINDINGS
    async with (
        world() as data,
        platform(data, code_agents=True, code_roots=(tmp_path,), runtime_replicas=2) as running,
    ):
        connection = Connection(running.stack.gateway_address, running.stack.token(SUBJECT))
        tally = Tally()
        async with open_gateway(connection) as gateway:
            policy = BatchPolicy(concurrency=8)
            code = sast_pb2.CodeSource(repository=made.path, commit=made.commit)
            batch = Batch(BatchGateway(gateway), code, policy, tally, investigation_input)
            judging = asyncio.create_task(batch.run(findings))
            for number in range(KILLS):
                await tally.reach((number + 1) * FINDINGS // (KILLS + 2))
                await kill_and_start(running.stack.runtimes[number % 2])
            outcomes = await asyncio.wait_for(judging, TIMEOUT_S)
        await check(running, findings, outcomes, tally)


async def check(
    running: Platform, findings: list[sast_pb2.Finding], outcomes: dict[str, Outcome], tally: Tally
) -> None:
    """Compares what the batch says with the runs that there are."""
    fingerprints = {finding.fingerprint for finding in findings}
    assert set(outcomes) == fingerprints
    assert set(tally.counts.values()) == {1}
    assert all(outcome.source is Source.RUN and outcome.run_id for outcome in outcomes.values())
    assert len({outcome.run_id for outcome in outcomes.values()}) == FINDINGS

    caller = running.caller(SUBJECT)
    runs = [run for page in await caller.run_pages(runs_pb2.ListRunsRequest(page_size=200)) for run in page]
    assert {run.run_id for run in runs} == {outcome.run_id for outcome in outcomes.values()}
    states = Counter(runs_pb2.RunState.Name(run.state) for run in runs)
    assert set(states) <= {"RUN_STATE_SUCCEEDED", "RUN_STATE_NEEDS_REVIEW"}, states
    taken_over = [run for run in runs if run.epoch > 1]
    assert taken_over, "no run was ever taken over: the kills hit nothing"
    for run in taken_over:
        decisions = await caller.decisions(run.run_id)
        assert [decision.sequence for decision in decisions] == list(range(1, len(decisions) + 1))
