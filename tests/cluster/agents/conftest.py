"""The platform of these tests: the release on the cluster, its offline model, a graph database and repositories."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio
import yaml

from examples.harbour.incidents.graph import make_graph
from services.local.database import WORLD_GRAPH_POLICY, WORLD_SUBJECTS
from services.local.topology import graph_of, offline_endpoint
from tests.cluster.agents.backing import Agents, graph_database, served_repositories
from tests.cluster.cluster import Cluster
from tests.cluster.gateway import gateway
from tests.cluster.given import Given
from tests.fixtures.stack import UNHURRIED

SECRET = "signalbox-graph"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def agents(
    installed: Cluster, what_is_given: Given, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Agents]:
    """The release with every agent; all that it recorded is decided again."""
    if not installed.here:
        pytest.skip("the pods can't call this machine, where the graph and the repositories are (CLUSTER_CALLER)")
    folder = tmp_path_factory.mktemp("repositories")
    with (
        TemporaryDirectory(prefix="signalbox-graph-") as of_graph,
        served_repositories(folder, installed.here) as repositories,
    ):
        async with graph_database(Path(of_graph), installed.here) as graph:
            await make_graph(graph, [graph_of(subject) for subject in WORLD_SUBJECTS])
            installed.kubectl("create", "secret", "generic", SECRET, f"--from-literal=url={graph}")
            values = tmp_path_factory.mktemp("agents") / "values.yaml"
            values.write_text(yaml.safe_dump(_values(what_is_given, repositories)))
            installed.upgrade(values)
            async with gateway(installed, what_is_given) as deployed:
                yield Agents(deployed, folder, repositories)
                await deployed.verify_ledger()
            installed.upgrade(what_is_given.values)
            installed.kubectl("delete", "secret", SECRET)


def _values(given: Given, repositories: str) -> dict[str, object]:
    """The values of the installation, with what these agents need."""
    chosen = yaml.safe_load(given.values.read_text())
    services, models = chosen["services"], offline_endpoint("")
    unhurried = {name: int(value) for name, value in UNHURRIED.items()}
    services["gateway"]["env"] |= {**unhurried, "SIGNALBOX_JWT_PASSED_CLAIMS": "tenant"}
    services["code_executor"]["env"]["SIGNALBOX_CODE_URL_PREFIXES"] = repositories
    services["graph_executor"] = {
        "enabled": True,
        "env": {"SIGNALBOX_GRAPH_CLAIM": "tenant"},
        "files": {"SIGNALBOX_GRAPH_POLICY": {"name": "policy.yaml", "content": WORLD_GRAPH_POLICY.read_text()}},
    }
    services["batches"] = {"enabled": True}
    services["runtime"]["env"] |= {
        "SIGNALBOX_MODELS": json.dumps(models.models),
    }
    return dict(chosen)
