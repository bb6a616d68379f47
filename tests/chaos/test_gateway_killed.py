"""kill -9 of the gateway under load: callers come back to where they were and are told everything once."""

from __future__ import annotations

import pytest

from tests.chaos.book import check
from tests.chaos.deployment import Deployment, kill_and_start
from tests.chaos.load import Load

pytestmark = pytest.mark.faults

KILLS = 3


async def test_callers_go_on_where_they_were(deployed: Deployment) -> None:
    load = Load(deployed, concurrency=10, callers_reconnect=True)
    gateway = deployed.stack.service("gateway")
    async with load.running():
        for _ in range(KILLS):
            await load.more(10)
            await kill_and_start(gateway)
        await load.more(10)
    await check(deployed, load.told)
    assert sum(one.reconnects for one in load.told) >= KILLS
    continued = [one for one in load.told if one.reconnects and one.run.epoch == 1]
    assert continued, "the runs went on while their callers were away"
