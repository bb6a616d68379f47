"""One arena for all chaos tests: each leaves it working, and the next begins with what the last has left."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from tests.chaos.arena import Arena, arena


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs these tests in the event loop of the arena."""
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@dataclass(frozen=True)
class Extent:
    """How much harm: set by SIGNALBOX_CHAOS_RUNS, SIGNALBOX_CHAOS_KILLS and SIGNALBOX_CHAOS_SEED."""

    runs: int
    kills: int
    seed: int

    def random(self) -> Random:
        """The moments and victims of a test."""
        return Random(self.seed)  # noqa: S311 - no secret


@pytest.fixture(scope="session")
def extent() -> Extent:
    """How much harm to do."""
    given = os.environ.get
    return Extent(
        runs=int(given("SIGNALBOX_CHAOS_RUNS", "200")),
        kills=int(given("SIGNALBOX_CHAOS_KILLS", "20")),
        seed=int(given("SIGNALBOX_CHAOS_SEED", "1")),
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ring() -> AsyncIterator[Arena]:
    """The arena."""
    async with arena() as made:
        yield made
