"""An investigation as a batch of the platform's: as the command brings it by itself, and going on when that is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from signalbox.v1 import batches_pb2

from examples.harbour import repository as portal
from services.cli.batch_client import open_batches
from services.cli.client import Connection
from services.cli.investigation import Investigation, summarise
from services.findings.investigation.batch import BatchPolicy
from tests.e2e.test_code_agents import scan, silent
from tests.fixtures.stack import Platform, World, platform

# What differs between two investigations that come to the same.
_OF_A_RUN = ("runId",)
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Scanned:
    """A platform, and a log of findings in a repository that it may read."""

    running: Platform
    folder: Path
    made: portal.ServiceRepository

    @property
    def connection(self) -> Connection:
        """The platform, for commands."""
        return Connection(self.running.stack.gateway_address, self.running.stack.token("27"))

    def wanted(self, **changes: Any) -> Investigation:
        """An investigation of the log."""
        asked = Investigation(self.folder / "bandit.sarif", self.made.path, policy=BatchPolicy(concurrency=4))
        return replace(asked, **changes)

    async def batches(self) -> list[batches_pb2.Batch]:
        """The caller's batches."""
        async with open_batches(self.connection) as batches:
            return await batches.listed("", 100)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scanned(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scanned]:
    """A platform with the agents that read code and the service for batches."""
    folder = tmp_path_factory.mktemp("scanned")
    made = portal.create(folder / "service")
    scan(made.path, folder / "bandit.sarif")
    async with platform(harbour, code_agents=True, code_roots=(folder,), batches=True) as running:
        yield Scanned(running, folder, made)


def without_runs(value: Any) -> Any:
    """A document without what names a run."""
    if isinstance(value, dict):
        return {name: without_runs(each) for name, each in value.items() if name not in _OF_A_RUN}
    return [without_runs(each) for each in value] if isinstance(value, list) else value


async def test_it_brings_what_the_command_brings_by_itself_and_outlives_it(scanned: Scanned) -> None:
    alone, together = scanned.folder / "alone.sarif", scanned.folder / "together.sarif"
    by_itself = await summarise(scanned.connection, scanned.wanted(out=alone), silent())
    asked = scanned.wanted(out=together, as_batch=True)

    terminal = silent()
    command = asyncio.create_task(summarise(scanned.connection, asked, terminal))
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := await scanned.batches()) or not found[0].start_time.seconds:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.05)
    command.cancel()
    await asyncio.gather(command, return_exceptions=True)
    [batch] = found
    said = terminal.err.file.getvalue()  # type: ignore[attr-defined]
    assert f"`signalbox batches cancel {batch.batch_id}`" in said.replace("\n", "")

    as_batch = await summarise(scanned.connection, asked, silent())
    [again] = await scanned.batches()
    assert (again.batch_id, again.state) == (batch.batch_id, batches_pb2.BATCH_STATE_ENDED)
    assert [each.verdict for each in as_batch.outcomes] == [each.verdict for each in by_itself.outcomes]
    assert all(each.run_id for each in as_batch.outcomes if each.source.value == "run")
    assert without_runs(json.loads(together.read_text())) == without_runs(json.loads(alone.read_text()))
