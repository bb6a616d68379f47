"""Batches as replicas pace them: who holds one, and what becomes of its items.

A claim is a lease by the database's clock. It raises the batch's epoch, and every write names it: what a replica still
writes that has lost its lease counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

from signalbox.v1 import runs_pb2

from services.batches.database import DELETES_WITHIN_S, WITHIN_S, Pool, connected
from services.batches.records import BatchRecord, BatchState, BegunItem, ItemState
from services.batches.store import record_of

_CLAIM: LiteralString = """
    UPDATE platform.batches SET epoch = epoch + 1, lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE batch_id = (
        SELECT batch_id FROM platform.batches
        WHERE state IN ('RUNNING', 'CANCELLING') AND lease_until < clock_timestamp()
        ORDER BY lease_until, batch_id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING *"""
# A batch whose time is over acts for its caller no longer; one that has ended is nobody's to pace.
_RENEW: LiteralString = """
    UPDATE platform.batches SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
        pace = %(pace)s, held_up_by = %(held_up_by)s,
        state = CASE WHEN expires_at < clock_timestamp() THEN 'CANCELLING' ELSE state END
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') RETURNING state"""
_LET_GO: LiteralString = """
    UPDATE platform.batches SET lease_until = 'epoch' WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s"""
_BEGUN: LiteralString = """
    SELECT number, input, retry_count, run_id FROM platform.batch_items
    WHERE batch_id = %(batch_id)s AND state = 'RUNNING' ORDER BY number"""
_BEGIN: LiteralString = """
    WITH held AS (
        SELECT FROM platform.batches WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'RUNNING' FOR SHARE
    ), next AS (
        SELECT number FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state = 'PENDING'
        ORDER BY number LIMIT %(limit)s
    )
    UPDATE platform.batch_items AS item SET state = 'RUNNING' FROM next, held
    WHERE item.batch_id = %(batch_id)s AND item.number = next.number
    RETURNING item.number, item.input, item.retry_count, item.run_id"""
_NOTE_RUN: LiteralString = """
    WITH held AS (
        SELECT FROM platform.batches WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s FOR SHARE
    )
    UPDATE platform.batch_items SET run_id = %(run_id)s FROM held
    WHERE batch_id = %(batch_id)s AND number = %(number)s"""
_END: LiteralString = """
    WITH held AS (
        UPDATE platform.batches SET ended_sequence = ended_sequence + 1
        WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s RETURNING ended_sequence
    )
    UPDATE platform.batch_items SET state = %(state)s, run_id = coalesce(%(run_id)s, run_id), run = %(run)s,
        error = %(error)s, ended_as = held.ended_sequence
    FROM held WHERE batch_id = %(batch_id)s AND number = %(number)s AND state = 'RUNNING'"""
_CANCEL_PENDING: LiteralString = """
    WITH held AS (
        SELECT ended_sequence FROM platform.batches
        WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'CANCELLING' FOR UPDATE
    ), waiting AS (
        SELECT number, row_number() OVER (ORDER BY number) AS place FROM platform.batch_items
        WHERE batch_id = %(batch_id)s AND state = 'PENDING'
    ), cancelled AS (
        UPDATE platform.batch_items AS item SET state = 'CANCELLED', ended_as = held.ended_sequence + waiting.place
        FROM held, waiting WHERE item.batch_id = %(batch_id)s AND item.number = waiting.number RETURNING item.number
    )
    UPDATE platform.batches SET ended_sequence = ended_sequence + (SELECT count(*) FROM cancelled)
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s"""
# What it knew of its caller beyond their roles is not needed any more.
_FINISH: LiteralString = """
    UPDATE platform.batches SET state = CASE state WHEN 'RUNNING' THEN 'ENDED' ELSE 'CANCELLED' END,
        ended_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %(kept_s)s),
        pace = 0, held_up_by = '', claims = '{}'
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') AND NOT EXISTS (
        SELECT FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state IN ('PENDING', 'RUNNING')
    )"""
_DELETE_EXPIRED: LiteralString = """
    DELETE FROM platform.batches WHERE batch_id IN (
        SELECT batch_id FROM platform.batches
        WHERE expires_at < clock_timestamp() AND state IN ('UPLOADING', 'ENDED', 'CANCELLED')
        ORDER BY expires_at LIMIT 4 FOR UPDATE SKIP LOCKED
    )"""


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

    def __init__(self, pool: Pool, *, lease_s: float, kept_s: float) -> None:
        self._pool = pool
        self._lease_s = lease_s
        self._kept_s = kept_s

    async def claim(self) -> Claim | None:
        """Claims a batch that nobody paces; None where there is none."""
        async with connected(self._pool) as connection:
            cursor = await connection.execute(_CLAIM, {"lease_s": self._lease_s})
            row = await cursor.fetchone()
            return Claim(record_of(row, {})) if row else None

    async def renew(self, claim: Claim, *, pace: int, held_up_by: str) -> BatchState | None:
        """Renews a lease, and says how the batch goes; returns its state, None once this claim holds no more."""
        parameters = {**claim.key, "lease_s": self._lease_s, "pace": pace, "held_up_by": held_up_by}
        async with connected(self._pool) as connection:
            cursor = await connection.execute(_RENEW, parameters)
            row = await cursor.fetchone()
            return BatchState(row["state"]) if row else None

    async def let_go(self, claim: Claim) -> None:
        """Leaves a batch to whoever claims it next."""
        await self._write(_LET_GO, claim.key)

    async def begun(self, claim: Claim) -> list[BegunItem]:
        """Returns the items whose runs are under way, or were about to be made."""
        return await self._items(_BEGUN, claim.key)

    async def begin(self, claim: Claim, limit: int) -> list[BegunItem]:
        """Begins the next items; returns them, none where the claim is lost or the batch is cancelled."""
        items = await self._items(_BEGIN, {**claim.key, "limit": limit})
        return sorted(items, key=lambda item: item.number)

    async def note_run(self, claim: Claim, number: int, run_id: str) -> None:
        """Notes the run of an item."""
        await self._write(_NOTE_RUN, {**claim.key, "number": number, "run_id": run_id})

    async def end(self, claim: Claim, number: int, state: ItemState, run: runs_pb2.Run | None, error: str) -> bool:
        """Ends an item, with its run as it ended; tells whether it was for this claim to end."""
        parameters = {
            **claim.key, "number": number, "state": state, "error": error.replace("\0", ""),
            "run_id": run.run_id if run else None, "run": run.SerializeToString(deterministic=True) if run else None,
        }  # fmt: skip
        return bool(await self._write(_END, parameters))

    async def cancel_pending(self, claim: Claim) -> None:
        """Ends the items of a cancelled batch that were not begun."""
        await self._write(_CANCEL_PENDING, claim.key)

    async def finish(self, claim: Claim) -> bool:
        """Ends a batch all of whose items have ended; tells whether they had."""
        return bool(await self._write(_FINISH, {**claim.key, "kept_s": self._kept_s}))

    async def delete_expired(self) -> int:
        """Deletes a few batches whose time is over; returns how many."""
        return await self._write(_DELETE_EXPIRED, {}, within_s=DELETES_WITHIN_S)

    async def _write(self, statement: LiteralString, parameters: dict[str, Any], *, within_s: float = WITHIN_S) -> int:
        async with connected(self._pool, within_s) as connection:
            return (await connection.execute(statement, parameters)).rowcount

    async def _items(self, statement: LiteralString, parameters: dict[str, Any]) -> list[BegunItem]:
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement, parameters)
            return [
                BegunItem(row["number"], bytes(row["input"]), row["retry_count"], str(row["run_id"] or ""))
                for row in await cursor.fetchall()
            ]
