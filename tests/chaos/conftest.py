"""One deployment for all chaos tests: each leaves it working, and the next begins with what the last has left."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from tests.chaos.deployment import Deployment, deployment


def pytest_report_header() -> str:
    """Says which moments and victims are chosen."""
    return f"chaos: SEED={_seed()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs these tests in the event loop of the deployment."""
    for item in items:
        if item.nodeid.startswith("tests/chaos/") and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@dataclass(frozen=True)
class Extent:
    """How much harm: each is set by SIGNALBOX_CHAOS_ and its name.

    `slow_s` is what a slow model takes for a call, `outage_s` how long what is away stays away: at least a lease, and
    the longest that a breaker stays open. `thorough` tries each combination, and measures what else is only looked at.
    """

    runs: int
    kills: int
    graph_kills: int
    seed: int
    slow_s: float
    outage_s: float
    thorough: bool

    def random(self) -> Random:
        """The moments and victims of a test."""
        return Random(self.seed)  # noqa: S311 - no secret


def _seed() -> int:
    return int(os.environ.get("SIGNALBOX_CHAOS_SEED", "1"))


@pytest.fixture(scope="session")
def extent() -> Extent:
    """How much harm to do."""
    given = os.environ.get
    return Extent(
        runs=int(given("SIGNALBOX_CHAOS_RUNS", "200")),
        kills=int(given("SIGNALBOX_CHAOS_KILLS", "20")),
        graph_kills=int(given("SIGNALBOX_CHAOS_GRAPH_KILLS", "8")),
        seed=_seed(),
        slow_s=float(given("SIGNALBOX_CHAOS_SLOW_S", "2")),
        outage_s=float(given("SIGNALBOX_CHAOS_OUTAGE_S", "12")),
        thorough=given("SIGNALBOX_CHAOS_THOROUGH", "") != "",
    )


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def deployed() -> AsyncIterator[Deployment]:
    """The deployment."""
    async with deployment() as made:
        yield made
