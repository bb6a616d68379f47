"""kill -9 of an executor under load: runs wait for it, and what it had done before it died is not done again."""

from __future__ import annotations

from random import Random

import pytest

from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment, kill_and_start
from tests.chaos.load import Load

pytestmark = pytest.mark.faults

KILLS = 5


async def test_runs_wait_for_it(deployed: Deployment, extent: Extent) -> None:
    random: Random = extent.random()
    load = Load(deployed, concurrency=10)
    async with load.running():
        for _ in range(KILLS):
            await load.more(random.randint(1, 12))
            await kill_and_start(deployed.executor)
        await load.more(10)
    await check(deployed, load.told)
    [[attempts]] = deployed.effects("SELECT count(*) FROM attempts WHERE tool = 'execute_db_query'")
    assert attempts >= len(load.told)
