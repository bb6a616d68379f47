"""The ledger under other limits: decided by the database, and run by run in Python where that can't."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from signalbox_routing.facts import Record
from signalbox_routing.table import Router

from services.kit.telemetry.logs import get_logger
from services.runtime.engine.ledger import DecidedInDatabase, Ledger
from services.runtime.routing.in_sql import NotInSql, decision_in_sql
from services.runtime.routing.redeciding import Divergence, Replay

log = get_logger()


class LedgerReplay:
    """Decides a router's stored decisions under another policy, or by another table."""

    def __init__(self, ledger: Ledger, router: Router[Any, Any], policy: Record) -> None:
        self._ledger = ledger
        self._router = router
        self._policy = policy
        self._in_python = Replay(router, policy)
        self._in_database = DecidedInDatabase()
        self.policy_version = self._in_python.policy_version

    @property
    def run_count(self) -> int:
        """Runs looked at."""
        return self._in_database.run_count + self._in_python.run_count

    @property
    def decision_count(self) -> int:
        """Decisions looked at."""
        return self._in_database.decision_count + self._in_python.decision_count

    @property
    def skipped_count(self) -> int:
        """Decisions whose facts are blanked or of another shape."""
        return self._in_python.skipped_count

    async def divergences(self, since: datetime | None) -> AsyncIterator[Divergence]:
        """Yields where runs would have left their way, in the order of their ids; counts are whole afterwards."""
        left: list[str] | None = None
        try:
            decision = decision_in_sql(self._router, self._policy)
        except NotInSql as error:
            log.info("replay decides in Python", router=self._router.name, cause=str(error))
        else:
            self._in_database = await self._ledger.replay(self._router.name, decision, since)
            left = self._in_database.left
        found = deque(self._in_database.divergences)
        if left is None or left:
            async with self._ledger.decisions_of(self._router.name, since, left) as decisions:
                async for stored in decisions:
                    if divergence := self._in_python.decide(stored):
                        while found and found[0].run_id < divergence.run_id:
                            yield found.popleft()
                        yield divergence
        for each in found:
            yield each
