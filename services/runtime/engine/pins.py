"""Which policy a run is pinned to: written down with its first claim, and read by whoever goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from psycopg_pool import AsyncConnectionPool
from signalbox_routing.facts import Record

from services.runtime.agents.offered import Definition
from services.runtime.agents.policies import Limits, Pin, built_in, restored
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord


class Pins:
    """The policies that this replica pins runs to, and those that others have pinned runs to."""

    def __init__(self, pool: AsyncConnectionPool[Any], limits: Mapping[str, Limits]) -> None:
        self._pool = pool
        self._rows = {
            agent: [
                _row(agent, each.pin, is_built_in=False),
                _row(agent, built_in(type(each.policy), each.budget).pin, is_built_in=True),
            ]
            for agent, each in limits.items()
        }
        self._known = {
            pin.policy_id: pin
            for each in limits.values()
            for pin in (each.pin, built_in(type(each.policy), each.budget).pin)
        }
        # By agent and policy: every run is decided by one, and there are few.
        self._restored: dict[tuple[str, str | None], Record] = {}
        # As statements get them.
        self._of_agent = {agent: orjson.dumps(rows).decode() for agent, rows in self._rows.items()}
        self.of_all = orjson.dumps([row for rows in self._rows.values() for row in rows]).decode()

    def of_agent(self, agent: str) -> str:
        """Returns what the statement that creates a run of an agent pins it to; nothing for one that is not here."""
        return self._of_agent.get(agent, "[]")

    async def pin_of(self, run: RunRecord) -> Pin | None:
        """Returns what a run is pinned to; None before its first claim. Raises DatabaseAway."""
        if run.policy_id is None:
            return None
        if run.policy_id not in self._known:
            async with self._pool.connection() as connection:
                cursor = await connection.execute(query("find_policy"), {"policy_id": run.policy_id})
                row = await cursor.fetchone()
            if row is None:
                raise LookupError(f"the policy {run.policy_id}, which run {run.run_id} is pinned to, is not stored")
            self._known[run.policy_id] = Pin("", *row)
        return self._known[run.policy_id]

    async def policy_of(self, run: RunRecord, definition: Definition) -> Record:
        """Returns the policy that a claimed run is decided by. Raises DatabaseAway, UnknownLimitTypeError."""
        key = (definition.name, run.policy_id)
        if key not in self._restored:
            pin = await self.pin_of(run)
            self._restored[key] = restored(definition.policy, pin.limits if pin else {})
        return self._restored[key]


def _row(agent: str, pin: Pin, *, is_built_in: bool) -> dict[str, Any]:
    return {
        "agent": agent,
        "built_in": is_built_in,
        "policy_id": pin.policy_id,
        "policy_version": pin.policy_version,
        "limits": pin.limits,
        "origins": pin.origins,
    }
