"""A replica, once a module, that offers the graphs of the folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fixtures.hosted import FOLDER, HostedReplica, hosted_replica


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(shared_platform_dsn: str) -> AsyncIterator[HostedReplica]:
    """The replica, over a database that the module has alone."""
    async with hosted_replica(shared_platform_dsn, folder=FOLDER) as working:
        yield working
