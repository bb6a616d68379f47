"""Changes of agents' limits: each written down once, by the first replica that has the new ones in force.

Replicas with different limits are there side by side, in a rolling update for a while. What was never in force before
is a change when the first replica has it. What was in force before may be what a replica of the former version has that
starts anew: it is a change once nobody has had the recorded limits for a while, as after a rollback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import stop
from services.runtime.agents.limits_in_force import LimitsInForce, LimitSource
from services.runtime.engine.background import attempt
from services.runtime.engine.queries import query
from services.runtime.metrics import LIMITS_CHANGED

log = get_logger()
RENEW_S: Final = 20.0
# Some rounds that failed, or a replica that starts anew, are no absence.
GONE_S: Final = 90.0
_RECORDED_NO_MORE: Final = "UPDATE platform.limits_in_force SET is_recorded = false WHERE agent = %s AND is_recorded"
_RECORDED: Final = "UPDATE platform.limits_in_force SET is_recorded = true WHERE agent = %s AND limits_digest = %s"


@dataclass(frozen=True)
class Deployment:
    """What the deployment says of itself: its release, its revision (0: it does not say), who changed it, and why."""

    release: str
    revision: int = 0
    changed_by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ChangedLimit:
    """A limit before and after, None where it was not there; of what is there, its source and who reads it."""

    name: str
    old: Any
    new: Any
    source: LimitSource | None = None
    routers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LimitChange:
    """A change as it is written down; without limits it is an agent's first entry."""

    change_id: int
    agent: str
    changed_at: datetime
    limits: Sequence[ChangedLimit]
    policy_version: str
    graph_version: str
    release: str
    revision: int
    changed_by: str
    reason: str


@dataclass(frozen=True)
class _Recorded:
    digest: str
    values: Mapping[str, Any]
    is_seen: bool


class LimitChanges:
    """What is written down, for who asks."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def list(self, agent: str, before: int, limit: int) -> list[LimitChange]:
        """Returns changes of one agent, or of all, before one of an id (0: from the newest). Raises DatabaseAway."""
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("limit_changes"), {"agent": agent or None, "before": before, "limit": limit})
            return [LimitChange(**{**row, "limits": _restored(row["limits"])}) for row in await cursor.fetchall()]


class LimitRecord:
    """Writes down the limits that this replica has in force, where they are others than those recorded."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        limits: Iterable[LimitsInForce],
        deployment: Deployment,
        *,
        renew_s: float = RENEW_S,
        gone_s: float = GONE_S,
    ) -> None:
        self._pool = pool
        self._own = {each.agent: each for each in limits}
        self._deployment = deployment
        self._renew_s = renew_s
        self._names = {
            "agents": list(self._own),
            "digests": [each.digest for each in self._own.values()],
            "renew_s": renew_s,
            "gone_s": gone_s,
        }

    async def tell(self) -> None:
        """Says that these limits are in force, and writes down what changed by that. Raises DatabaseAway."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("renew_limits"), self._names)
            rows = await cursor.fetchall()
            if any(not is_recorded for _, is_recorded, _ in rows) and self._news(*await self._known(connection)):
                async with connection.transaction():
                    # Of replicas that start at the same time one is first.
                    await connection.execute("LOCK TABLE platform.limits_in_force IN SHARE ROW EXCLUSIVE MODE")
                    await self._record(connection)
                rows = await (await connection.execute(query("renew_limits"), self._names)).fetchall()
        for agent, _, changed_s in rows:
            if changed_s is not None:
                LIMITS_CHANGED.labels(agent).set(changed_s)

    async def _record(self, connection: AsyncConnection[Any]) -> None:
        recorded, known = await self._known(connection)
        own_limits = self._own.values()
        given = [{"agent": own.agent, "limits_digest": own.digest, "limits": own.values} for own in own_limits]
        await connection.execute(query("enter_limits"), {"given": orjson.dumps(given).decode()})
        for own in self._news(recorded, known):
            before = recorded.get(own.agent)
            await self._change(connection, own, changed(own, before.values) if before is not None else [])

    async def _known(self, connection: AsyncConnection[Any]) -> tuple[dict[str, _Recorded], set[tuple[str, str]]]:
        """Returns the recorded limits by agent, and which were in force before."""
        cursor = await connection.execute(query("known_limits"), self._names)
        recorded, known = dict[str, _Recorded](), set[tuple[str, str]]()
        for agent, digest, values, is_recorded, is_seen in await cursor.fetchall():
            known.add((agent, digest))
            if is_recorded:
                recorded[agent] = _Recorded(digest, values, is_seen)
        return recorded, known

    def _news(self, recorded: Mapping[str, _Recorded], known: Set[tuple[str, str]]) -> list[LimitsInForce]:
        """Returns which of these limits are a change: others than those recorded, and new or the only ones left."""
        news = []
        for own in self._own.values():
            before = recorded.get(own.agent)
            if before is None or (
                before.digest != own.digest and not (before.is_seen and (own.agent, own.digest) in known)
            ):
                news.append(own)
        return news

    async def _change(
        self, connection: AsyncConnection[Any], own: LimitsInForce, limits: Sequence[ChangedLimit]
    ) -> None:
        parameters = {
            "agent": own.agent,
            "limits": orjson.dumps([asdict(each) for each in limits]).decode(),
            "policy_version": own.policy_version,
            "graph_version": own.graph_version,
            **asdict(self._deployment),
        }
        await connection.execute(_RECORDED_NO_MORE, [own.agent])
        await connection.execute(_RECORDED, [own.agent, own.digest])
        await connection.execute(query("put_limit_change"), parameters)
        told = {each.name: [each.old, each.new] for each in limits}
        log.info("limits changed", agent=own.agent, limits=told, **asdict(self._deployment))

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Says again and again, inside the context, that these limits are in force."""
        task = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            await stop(task)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._renew_s)
            await attempt("record_limits", self.tell())


def changed(own: LimitsInForce, before: Mapping[str, Any]) -> list[ChangedLimit]:
    """Returns the limits that are others than before, by name."""
    now = own.values
    found = []
    for name in sorted({*now, *before}):
        if name in now and name in before and now[name] == before[name]:
            continue
        limit = own.limits.get(name)
        found.append(
            ChangedLimit(
                name,
                before.get(name),
                now.get(name),
                limit.source if limit else None,
                limit.routers if limit else (),
            )
        )
    return found


def _restored(limits: Iterable[Mapping[str, Any]]) -> list[ChangedLimit]:
    return [
        ChangedLimit(
            each["name"],
            each["old"],
            each["new"],
            LimitSource(each["source"]) if each["source"] else None,
            tuple(each["routers"]),
        )
        for each in limits
    ]
