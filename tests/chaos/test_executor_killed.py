"""kill -9 of an executor under load: runs wait for it, and what it had done before it died is not done again."""

from __future__ import annotations

from random import Random

from tests.chaos.arena import Arena, kill_and_start
from tests.chaos.book import check
from tests.chaos.conftest import Extent
from tests.chaos.load import Load

KILLS = 5


async def test_runs_wait_for_it(ring: Arena, extent: Extent) -> None:
    random: Random = extent.random()
    load = Load(ring, concurrency=10)
    async with load.running():
        for _ in range(KILLS):
            await load.more(random.randint(1, 12))
            await kill_and_start(ring.executor)
        await load.more(10)
    await check(ring, load.told)
    [[attempts]] = ring.effects("SELECT count(*) FROM attempts WHERE tool = 'execute_db_query'")
    assert attempts >= len(load.told)
