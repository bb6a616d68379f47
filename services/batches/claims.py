"""Batches as replicas pace them: who holds one, and what becomes of its items.

A claim is a lease by the database's clock. It raises the batch's epoch, and every write names it: what a replica still
writes that has lost its lease counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from signalbox.v1 import runs_pb2

from services.batches.database import DELETES_WITHIN_S, WITHIN_S, Pool, connected
from services.batches.records import BatchRecord, BatchState, BegunItem, ItemState
from services.batches.scores import Scores, scores_of
from services.batches.statements import statement
from services.batches.store import record_of


@dataclass(frozen=True)
class Claim:
    """A batch that this replica paces, and the epoch of its claim."""

    batch: BatchRecord

    @property
    def key(self) -> dict[str, Any]:
        """What every write names."""
        return {"batch_id": self.batch.batch_id, "epoch": self.batch.epoch}


class BatchClaims:
    """The tables of batches, for those who pace them. Every method raises BatchDatabaseAway."""

    def __init__(self, pool: Pool, *, lease_s: float, kept_s: float, clock: Callable[[], float] = time.time) -> None:
        self._pool = pool
        self._clock = clock
        self._lease_s = lease_s
        self._kept_s = kept_s

    async def clock_skew_s(self) -> float:
        """Returns how far this replica's clock is certainly ahead of the database's: a slow answer is no skew."""
        async with connected(self._pool) as connection:
            before = self._clock()
            cursor = await connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8 AS there")
            [row] = await cursor.fetchall()
            there = float(row["there"])
            return before - there if there < before else min(0.0, self._clock() - there)

    async def claim(self) -> Claim | None:
        """Claims a batch that nobody paces; None where there is none."""
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("claim"), {"lease_s": self._lease_s})
            row = await cursor.fetchone()
            return Claim(record_of(row)) if row else None

    async def crowding(self, batch_ids: Sequence[str]) -> str | None:
        """Returns that of some claimed batches which another caller's is to be paced in place of, if one is."""
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("crowding"), {"batch_ids": [*batch_ids]})
            row = await cursor.fetchone()
            return str(row["batch_id"]) if row else None

    async def renew(self, claim: Claim, *, pace: int, held_up_by: str) -> BatchState | None:
        """Renews a lease, and says how the batch goes; returns its state, None once this claim holds no more."""
        parameters = {**claim.key, "lease_s": self._lease_s, "pace": pace, "held_up_by": held_up_by}
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("renew"), parameters)
            row = await cursor.fetchone()
            return BatchState(row["state"]) if row else None

    async def let_go(self, claim: Claim) -> None:
        """Leaves a batch to whoever claims it next."""
        await self._write(statement("let_go"), claim.key)

    async def begun(self, claim: Claim) -> list[BegunItem]:
        """Returns the items whose runs are under way, or were about to be made."""
        return await self._items(statement("begun"), claim.key)

    async def begin(self, claim: Claim, limit: int) -> list[BegunItem]:
        """Begins the next items; returns them, none where the claim is lost or the batch is cancelled."""
        items = await self._items(statement("begin"), {**claim.key, "limit": limit})
        return sorted(items, key=lambda item: item.number)

    async def note_run(self, claim: Claim, number: int, run_id: str) -> None:
        """Notes the run of an item."""
        await self._write(statement("note_run"), {**claim.key, "number": number, "run_id": run_id})

    async def end(
        self,
        claim: Claim,
        number: int,
        state: ItemState,
        run: runs_pb2.Run | None,
        error: str,
        verdict: str | None = None,
    ) -> bool:
        """Ends an item, with its run and the verdict that counts; tells whether it was for this claim to end."""
        parameters = {
            **claim.key, "number": number, "state": state, "error": error.replace("\0", ""),
            "run_id": run.run_id if run else None, "run": run.SerializeToString(deterministic=True) if run else None,
            "verdict": verdict,
        }  # fmt: skip
        return bool(await self._write(statement("end"), parameters))

    async def cancel_pending(self, claim: Claim) -> None:
        """Ends the items of a cancelled batch that were not begun."""
        await self._write(statement("cancel_pending"), claim.key)

    async def finish(self, claim: Claim) -> bool:
        """Ends a batch all of whose items have ended; tells whether they had."""
        return bool(await self._write(statement("finish"), {**claim.key, "kept_s": self._kept_s}))

    async def scores(self, claim: Claim) -> Scores:
        """Returns how good the verdicts of a batch are."""
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("scores"), claim.key)
            return scores_of(await cursor.fetchall())

    async def delete_expired(self) -> int:
        """Deletes a few batches whose time is over; returns how many."""
        return await self._write(statement("delete_expired"), {}, within_s=DELETES_WITHIN_S)

    async def _write(self, statement: LiteralString, parameters: dict[str, Any], *, within_s: float = WITHIN_S) -> int:
        async with connected(self._pool, within_s) as connection:
            return (await connection.execute(statement, parameters)).rowcount

    async def _items(self, statement: LiteralString, parameters: dict[str, Any]) -> list[BegunItem]:
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement, parameters)
            return [
                BegunItem(
                    row["number"],
                    bytes(row["input"]),
                    row["retry_count"],
                    str(row["run_id"] or ""),
                    bytes(row["given"] or b""),
                    row["rule"],
                    row["truth"],
                )
                for row in await cursor.fetchall()
            ]
