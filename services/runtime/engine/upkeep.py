"""What a replica does again and again for all runs: claims, leases, takeover, and ends that nobody else would write."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import uuid4

from psycopg.rows import dict_row

from services.runtime.engine.array_literal import NULL, array_literal
from services.runtime.engine.carrier import Claimable
from services.runtime.engine.database import Pools
from services.runtime.engine.pins import Pins
from services.runtime.engine.queries import query
from services.runtime.engine.quota import TokensSpent
from services.runtime.engine.records import Due, Orphans, OwnedRun, RunRecord
from services.runtime.engine.store import many, noted, one
from services.runtime.metrics import QUESTIONS_CLOSED

# Callers whose runs one claim looks at before it leaves the rest for the next.
MOST_CALLERS = 1000
QUESTIONS_ADOPTED = 1000
TOKEN_DAYS_KEPT = 7
CLAIM_LIMIT = "claim_limit"
EXPIRED = "expired"


class Upkeep:
    """The runs that a replica holds, and those that nobody does.

    A run whose claims ended with their replicas `suspect_after` times, and no step between them, is claimed apart.
    """

    def __init__(self, pools: Pools, pins: Pins, *, owner: str, lease_s: float, suspect_after: int = 3) -> None:
        self._pool = pools.upkeep
        self._pools = pools
        self._pins = pins
        self._owner = owner
        self._lease_s = lease_s
        self._suspect_after = suspect_after
        self._last_caller = ""

    async def claim_pending(self, limit: int, claimable: Claimable, claim_id: str | None = None) -> list[RunRecord]:
        """Claims pending runs for this replica; callers take turns, each caller's oldest first."""
        claimed: list[RunRecord] = []
        claim = self._claim(claimable, claim_id or str(uuid4()))
        while limit > len(claimed):
            parameters = claim | {
                "limit": limit - len(claimed),
                "after": self._last_caller,
                "most_callers": MOST_CALLERS,
            }
            async with self._pool.connection() as connection:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(query("claim_runs"), parameters)
                rows = await cursor.fetchall()
            self._last_caller = rows[0]["last_caller"]
            claimed += [RunRecord.of(row) for row in rows if row["run_id"]]
            if not rows[0]["candidate_count"]:
                break
        return claimed

    def had_turn(self, subject: str) -> None:
        """Notes that a caller has had its turn, since its run began as soon as it was created."""
        self._last_caller = subject

    async def claim_suspect(self, claimable: Claimable, claim_id: str) -> RunRecord | None:
        """Claims a pending run that is to be run alone, if there is one."""
        async with self._pool.connection() as connection:
            return await one(connection, "claim_suspect", self._claim(claimable, claim_id))

    async def begin_alone(self, run: RunRecord) -> bool:
        """Notes that a claimed run is now run alone; returns False when the claim is lost."""
        parameters = {"run_id": run.run_id, "epoch": run.epoch, "claim_id": run.claim_id}
        async with self._pool.connection() as connection:
            return await one(connection, "begin_alone", parameters) is not None

    async def give_up(self) -> list[RunRecord]:
        """Ends the runs that took their replica down also when they were run alone; returns them."""
        return await self._ended("give_up_runs", stop_reason=CLAIM_LIMIT)

    def _claim(self, claimable: Claimable, claim_id: str) -> dict[str, Any]:
        own = {"owner": self._owner, "lease_s": self._lease_s, "claim_id": claim_id, "pins": self._pins.of_all}
        return {**own, **claimable.parameters}

    async def renew_leases(self, executing: Collection[str]) -> None:
        """Renews this replica's lease, and for the release before this one those of the runs that it executes."""
        parameters = {"owner": self._owner, "lease_s": self._lease_s, "executing": array_literal(executing)}
        async with self._pool.connection() as connection:
            await connection.execute(query("renew_lease"), parameters)
            if executing:
                await connection.execute(query("renew_run_leases"), parameters)

    async def forget_gone(self) -> None:
        """Takes replicas off the books that left without a word, and their watches."""
        async with self._pool.connection() as connection:
            await connection.execute(query("forget_replicas"), {"leaving": None})
            await connection.execute(query("forget_watches"), {"leaving": None})

    async def leave(self) -> None:
        """Takes this replica off the books."""
        async with self._pool.connection() as connection:
            await connection.execute(query("forget_watches"), {"leaving": self._owner})
            await connection.execute(query("forget_replicas"), {"leaving": self._owner})

    async def due(self) -> Due:
        """Returns which of the other things there is any reason to do now."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("due"))
            return Due(*(await cursor.fetchone() or ()))

    async def take_over(self) -> Orphans:
        """Makes the runs of other replicas that are gone pending again, or ends those that are to be cancelled."""
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("take_over"), {"owner": self._owner, "suspect_after": self._suspect_after})
            rows = await cursor.fetchall()
        return Orphans(rows[0]["orphans"], [noted(RunRecord.of(row)) for row in rows if row["run_id"]])

    async def owned(self, known: Collection[RunRecord]) -> list[OwnedRun]:
        """Returns this replica's runs that are to be cancelled, and those that are not among the known."""
        parameters = {
            "owner": self._owner,
            "run_ids": array_literal([run.run_id for run in known]),
            "claim_ids": array_literal([run.claim_id or NULL for run in known]),
        }
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("owned_runs"), parameters)
            return [OwnedRun(*row) for row in await cursor.fetchall()]

    async def waiting(self) -> dict[str, int]:
        """Returns how many pending runs wait for something that is away, by what that is."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("waiting_runs"))
            return dict(await cursor.fetchall())

    async def questions(self) -> dict[str, tuple[int, float]]:
        """Returns how many questions nobody has answered, and how many seconds the oldest is old, by agent."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("questions"))
            return {agent: (count, oldest_s) for agent, count, oldest_s in await cursor.fetchall()}

    async def expire_questions(self) -> list[RunRecord]:
        """Ends the runs whose question was not answered in time, or has them go on; returns those that do."""
        async with self._pool.connection() as connection:
            await connection.execute(query("adopt_questions"), {"limit": QUESTIONS_ADOPTED})
        expired = await self._ended("expire_questions")
        async with self._pool.connection() as connection:
            passed_on = await many(connection, "pass_on_expiry", {})
        for run in (*expired, *passed_on):
            QUESTIONS_CLOSED.labels(run.agent, EXPIRED).inc()
        return passed_on

    async def add_tokens(self, spent: TokensSpent) -> None:
        """Writes down what callers' runs have spent here. Raises DatabaseAway, and keeps count."""
        if not (taken := spent.take()):
            return
        subjects = list(taken)
        parameters = {
            "owner": self._owner,
            "subjects": subjects,
            "tokens": [taken[subject] for subject in subjects],
            "days_kept": TOKEN_DAYS_KEPT,
        }
        try:
            async with self._pool.connection() as connection:
                await connection.execute(query("add_tokens"), parameters)
        except BaseException:  # a round that took too long is cut off
            spent.put_back(taken)
            raise

    async def renew_connections(self) -> None:
        """Makes new connections in the place of all."""
        await self._pools.renew()

    async def _ended(self, name: str, **parameters: str) -> list[RunRecord]:
        async with self._pool.connection() as connection:
            return [noted(run) for run in await many(connection, name, parameters)]
