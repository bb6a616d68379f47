"""Platforms that the end-to-end tests share; every test drives one through its public API only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.local.database import WORLD_GRAPH_POLICY
from tests.fixtures.hosted import FOLDER
from tests.fixtures.script import Script
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.stack import Platform, World, platform, world


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs these tests in the event loop of the platforms that they share."""
    for item in items:
        if item.nodeid.startswith("tests/e2e/") and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def harbour() -> AsyncIterator[World]:
    """The harbour world."""
    async with world() as data:
        yield data


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model() -> AsyncIterator[ScriptedModel]:
    """The model server of the shared platform."""
    async with ScriptedModel() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def signalbox(harbour: World, model: ScriptedModel) -> AsyncIterator[Platform]:
    """A platform over a scripted model, for tests that leave it as it is; all that it recorded is decided again."""
    async with platform(harbour, model=model) as running:
        yield running
        await running.verify_ledger()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asking(harbour: World) -> AsyncIterator[Platform]:
    """A platform over the offline model on which deletions in a graph are for approvers to approve."""
    policies = '{"graph_editor": {"approval_role": "approver"}}'
    env = {"runtime": {"SIGNALBOX_POLICIES": policies}}
    async with platform(harbour, graph_policy=WORLD_GRAPH_POLICY, service_env=env) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicated(harbour: World) -> AsyncIterator[Platform]:
    """A platform with two replicas of the HTTP API and of the runtime, that offers the graphs of a folder."""
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": str(FOLDER), "SIGNALBOX_LEASE_S": "3"}}
    async with platform(harbour, service_env=env, http_replicas=2, runtime_replicas=2) as running:
        yield running


@pytest.fixture
def script(model: ScriptedModel) -> Script:
    """What the models say in this test."""
    return Script(model)
