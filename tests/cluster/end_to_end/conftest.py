"""The platform of these tests: the release on the cluster, while its models are those of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.gateway import gateway
from tests.cluster.given import Given
from tests.fixtures.script import Script
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL, UNHURRIED, Deployed

_SETTINGS = {
    "guard": {"SIGNALBOX_GUARD_MODEL": GUARD_MODEL},
    "runtime": {"SIGNALBOX_AGENT_MODEL": AGENT_MODEL, "SIGNALBOX_FORMAT_MODEL": FORMAT_MODEL},
    "gateway": UNHURRIED,
}


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def model(cluster: Cluster) -> AsyncIterator[ScriptedModel]:
    """A model server that the cluster's pods reach."""
    if not cluster.here:
        pytest.skip("the pods can't call this machine, where the models of these tests are (CLUSTER_CALLER)")
    async with ScriptedModel(f"{cluster.here}:0") as server:
        yield server


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def signalbox(installed: Cluster, what_is_given: Given, model: ScriptedModel) -> AsyncIterator[Deployed]:
    """The release over that model; all that it recorded is decided again."""
    settings = [
        f"services.{service}.env.{name}={value}" for service, env in _SETTINGS.items() for name, value in env.items()
    ]
    installed.upgrade(what_is_given.values, f"model.baseUrl={model.base_url}", *settings)
    async with gateway(installed, what_is_given) as deployed:
        yield deployed
        await deployed.verify_ledger()
    installed.upgrade(what_is_given.values)


@pytest.fixture
def script(model: ScriptedModel) -> Script:
    """What the models say in this test."""
    return Script(model)
