"""The ledger held against the tables: what was recorded is decided once more, by the same facts and the same limits.

The database decides, as in a replay. What it does not find as it was recorded, or can't decide, is decided in Python.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from signalbox_routing.facts import Record
from signalbox_routing.table import Router

from services.kit.telemetry.logs import get_logger
from services.runtime.agents.policies import UnknownLimitTypeError, restored
from services.runtime.engine.ledger import Ledger, RecordedDecision
from services.runtime.routing.digest import policy_version
from services.runtime.routing.in_sql import DecisionInSql, NotInSql, decision_in_sql

log = get_logger()


@dataclass(frozen=True)
class Disagreement:
    """A decision that comes out otherwise, and how."""

    recorded: RecordedDecision
    rule: str
    destination: str


class Verification:
    """Decides recorded decisions once more, each by the policy that it was made by; counts are whole afterwards."""

    def __init__(self, ledger: Ledger, routers: Mapping[str, Router[Any, Any]]) -> None:
        self.decision_count = 0
        self.skipped_count = 0
        self._ledger = ledger
        self._routers = routers
        self._facts = {name: TypeAdapter[Any](router.facts_type) for name, router in routers.items()}
        self._limits: Mapping[str, Mapping[str, Any]] = {}
        self._policies: dict[tuple[str, str], Record | None] = {}

    async def disagreements(self, since: datetime | None) -> AsyncIterator[Disagreement]:
        """Yields the decisions made since then that come out otherwise."""
        made = await self._ledger.decided_by(since)
        # Read once it is known what they were made by: the policy of each is stored by then.
        self._limits = await self._ledger.policies()
        tables: dict[tuple[str, str], DecisionInSql | None] = {}
        for each in made:
            self.decision_count += each.decision_count
            router = self._routers.get(each.router)
            policy = self._policy_of(router, each.policy_version) if router else None
            if router is None or policy is None:
                self.skipped_count += each.decision_count - each.failed_count
            else:
                tables[each.router, each.policy_version] = _in_sql(router, policy)
        async with aclosing(self._ledger.doubtful(tables, since)) as decisions:
            async for recorded in decisions:
                if found := self._disagreement(recorded):
                    yield found

    def _disagreement(self, recorded: RecordedDecision) -> Disagreement | None:
        decided, router = recorded.decided, self._routers.get(recorded.router)
        policy = self._policy_of(router, recorded.policy_version) if router else None
        try:
            facts = self._facts[recorded.router].validate_python(decided.facts) if policy else None
        except ValidationError:
            facts = None
        if router is None or facts is None:
            self.skipped_count += 1
            return None
        rule, destination = router.destination_of(facts, policy)
        if (rule.name, destination) == (decided.rule, decided.destination):
            return None
        return Disagreement(recorded, rule.name, destination)

    def _policy_of(self, router: Router[Any, Any], version: str) -> Record | None:
        """Returns the policy of a version, which is one of those that are stored, or built in; None for any other."""
        key = router.name, version
        if key not in self._policies:
            kind: type[Record] = type(router.policy)
            known = {policy_version(policy): policy for policy in (kind(), router.policy)}
            try:
                self._policies[key] = (
                    restored(kind, self._limits[version]) if version in self._limits else known.get(version)
                )
            except UnknownLimitTypeError:
                self._policies[key] = None
        return self._policies[key]


def _in_sql(router: Router[Any, Any], policy: Record) -> DecisionInSql | None:
    try:
        return decision_in_sql(router, policy)
    except NotInSql as error:
        log.info("a table is verified in Python", router=router.name, cause=str(error))
        return None
