"""What Bandit says of the portal's repository, on a cluster that fetches it from a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.harbour import repository
from services.cli.client import Connection
from services.cli.demo_findings import SCENE, check_findings
from services.cli.findings_batch import BatchPolicy
from services.cli.investigation import Investigation, summarise
from services.findings.sarif.outcome import Source
from tests.cluster.agents.backing import Agents
from tests.cluster.given import SUBJECT
from tests.e2e.test_code_agents import silent


@pytest.fixture
def made(agents: Agents) -> repository.ServiceRepository:
    """The portal's repository, where the server finds it."""
    return repository.create(agents.folder / "portal")


@pytest.fixture
def log(made: repository.ServiceRepository, tmp_path: Path) -> Path:
    """What Bandit says of it."""
    path = tmp_path / "bandit.sarif"
    arguments = ["-q", "-c", "pyproject.toml", "-r", ".", "-f", "sarif", "-o", str(path), "--exit-zero"]
    subprocess.run([sys.executable, "-m", "bandit", *arguments], cwd=made.path, check=True, timeout=120)
    return path


async def test_every_finding_is_investigated_and_verdicts_are_as_good_as_promised(
    agents: Agents, made: repository.ServiceRepository, log: Path
) -> None:
    wanted = Investigation(
        log, f"{agents.url}portal", made.commit,
        known_file=SCENE.known, truth_file=SCENE.truth, policy=BatchPolicy(max_runs=4),
    )  # fmt: skip
    connection = Connection(agents.deployed.address, agents.deployed.token(SUBJECT))
    summary = await summarise(connection, wanted, silent())
    ran = [outcome for outcome in summary.outcomes if outcome.source is Source.RUN]
    assert len(ran) == SCENE.findings - SCENE.by_known
    assert check_findings(SCENE, summary) == []
