"""What a replica says of agents that others have."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from services.runtime.engine.offers import Offers
from services.runtime.errors import DatabaseAway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class BusyPool:
    """A pool of which nobody gets a connection."""

    asked = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[None]:
        self.asked += 1
        raise DatabaseAway("no connection is free")
        yield


async def test_a_call_whose_work_is_committed_goes_well_when_nobody_can_be_told() -> None:
    pool = BusyPool()
    await Offers(cast("Any", pool)).tell_of_work("basket")
    assert pool.asked == 1
