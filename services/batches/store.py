"""Batches as callers make, read and change them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import AsyncConnection

from services.batches.answers import NewItem
from services.batches.database import Pool, connected
from services.batches.errors import (
    BatchItemOther,
    BatchItemsMissing,
    BatchNotFound,
    BatchRequestReused,
    BatchStateWrong,
    BatchTooLarge,
    TooManyBatches,
)
from services.batches.records import (
    OVER,
    RUN_AGAIN,
    UNDER_WAY,
    BatchRecord,
    BatchState,
    ItemRecord,
    ItemState,
)
from services.batches.scores import Scores, scores_of
from services.batches.statements import statement
from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identifiers import uuid7
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR

# One caller's creations and retries go one after another, so that they are counted.
_LOCK_CALLER: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('batches of ' || %(subject)s, 0))"
# What a batch that runs waits for while no replica has it in hand; what the last one knew is of before.
_LEFT: Final = "no replica paces it now: each has as many batches as it may, or none is there"
READ_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class BatchLimits:
    """What a batch may be, and how long it lives."""

    share: int
    items: int
    bytes: int
    item_bytes: int
    at_once: int
    life_s: float
    kept_s: float


class BatchStore:
    """The tables of batches, for callers. Every method raises BatchDatabaseAway."""

    def __init__(self, pool: Pool, limits: BatchLimits) -> None:
        self._pool = pool
        self._limits = limits

    async def create(
        self, caller: Caller, *, request_id: str, name: str, max_runs: int, item_count: int = 0
    ) -> BatchRecord:
        """Creates a batch that is to have so many items, 0 where that is not known, or finds the one of the request.

        Raises BatchTooLarge, TooManyBatches, BatchRequestReused.
        """
        share = min(max_runs or self._limits.share, self._limits.share)
        parameters = {
            **_identity(caller), "batch_id": uuid7(), "request_id": request_id or None, "name": name,
            "max_runs": share, "life_s": self._limits.life_s,
        }  # fmt: skip
        async with connected(self._pool) as connection, connection.transaction():
            await connection.execute(_LOCK_CALLER, parameters)
            if request_id and (known := await _one(connection, statement("by_request"), parameters)):
                if known["name"] != name:
                    raise BatchRequestReused(f"request id {request_id!r} was used for another batch; use a new one")
                return await _read(connection, caller, known["batch_id"])
            self._check_count(item_count)
            await self._check_room(connection, caller)
            created = await _one(connection, statement("create"), parameters)
            assert created is not None, "an insert returns its row"  # noqa: S101 - an invariant of the statement
            return record_of(created)

    async def add(self, caller: Caller, batch_id: str, first: int, items: Sequence[NewItem]) -> int:
        """Adds items from a number on; returns how many the batch has.

        Raises BatchNotFound, BatchStateWrong, BatchItemsMissing, BatchItemOther, BatchTooLarge, InvalidRequest.
        """
        self._check_sizes(items)
        async with connected(self._pool) as connection, connection.transaction():
            batch = await _locked(connection, caller, batch_id)
            _must_be(batch, BatchState.UPLOADING)
            count = int(batch["item_count"])
            if first > count + 1:
                raise BatchItemsMissing(
                    f"the batch has {count} items; go on with number {count + 1}", metadata={"item_count": str(count)}
                )
            known = items[: max(0, count + 1 - first)]
            await _check_known(connection, batch_id, first, known)
            added = items[len(known) :]
            item_count, size = count + len(added), sum(len(item.content) for item in added)
            self._check_count(item_count)
            if batch["input_bytes"] + size > self._limits.bytes:
                raise BatchTooLarge(f"the inputs of a batch may have {self._limits.bytes} bytes, and these have more")
            if added:
                parameters = {
                    "batch_id": batch_id, "numbers": [*range(count + 1, item_count + 1)], "bytes": size,
                    "keys": [item.key for item in added], "inputs": [item.input for item in added],
                    "givens": [item.given for item in added], "rules": [item.rule for item in added],
                    "truths": [item.truth for item in added], "runs": [item.run for item in added],
                    "run_ids": [item.run_id for item in added], "verdicts": [item.verdict for item in added],
                    "item_count": item_count, "ended_sequence": batch["ended_sequence"],
                }  # fmt: skip
                await connection.execute(statement("add"), parameters)
            return item_count

    async def start(self, caller: Caller, batch_id: str, item_count: int) -> BatchRecord:
        """Starts a batch that has all its items. Raises BatchNotFound, BatchStateWrong, BatchItemsMissing."""
        async with connected(self._pool) as connection, connection.transaction():
            batch = await _locked(connection, caller, batch_id)
            if batch["started_at"] is None:
                _must_be(batch, BatchState.UPLOADING)
            if batch["item_count"] != item_count:
                raise BatchItemsMissing(
                    f"the batch has {batch['item_count']} items, and is to have {item_count}",
                    metadata={"item_count": str(batch["item_count"])},
                )
            if batch["started_at"] is not None:
                return await _read(connection, caller, batch_id)
            return await self._started(connection, caller, batch_id)

    async def retry(self, caller: Caller, batch_id: str) -> tuple[BatchRecord, int]:
        """Has items run again that failed, were refused or cancelled; returns how many.

        Raises BatchNotFound, also for batches of others, BatchStateWrong, TooManyBatches.
        """
        async with connected(self._pool) as connection, connection.transaction():
            await connection.execute(_LOCK_CALLER, _identity(caller))
            batch = await _locked(connection, caller, batch_id)
            _must_be(batch, *OVER)
            await self._check_room(connection, caller)
            again = await connection.execute(statement("run_again"), {"batch_id": batch_id, "states": [*RUN_AGAIN]})
            if not again.rowcount:
                raise BatchStateWrong("no item of the batch failed, was refused or cancelled")
            return await self._started(connection, caller, batch_id), again.rowcount

    async def cancel(self, caller: Caller, batch_id: str) -> BatchRecord:
        """Asks a batch to stop. Raises BatchNotFound, BatchStateWrong once it has ended otherwise."""
        async with connected(self._pool) as connection, connection.transaction():
            cancelled = await _one(connection, statement("cancel"), {**_seen_by(caller), "batch_id": batch_id})
            if cancelled is not None and cancelled["started_at"] is None:
                # Nobody paces it yet, and nobody is to begin.
                ended = {"batch_id": batch_id, "epoch": cancelled["epoch"], "kept_s": self._limits.kept_s}
                await connection.execute(statement("cancel_pending"), ended)
                await connection.execute(statement("finish"), ended)
        batch = await self.get(caller, batch_id)
        if batch.state is BatchState.ENDED:
            raise BatchStateWrong("the batch has ended")
        return batch

    async def delete(self, caller: Caller, batch_id: str) -> None:
        """Deletes a batch that is not under way. Raises BatchNotFound, also for batches of others, BatchStateWrong."""
        async with connected(self._pool) as connection, connection.transaction():
            batch = await _locked(connection, caller, batch_id)
            _must_be(batch, BatchState.UPLOADING, *OVER)
            await connection.execute(statement("delete"), {"batch_id": batch_id})

    async def get(self, caller: Caller, batch_id: str) -> BatchRecord:
        """Returns a batch. Raises BatchNotFound."""
        async with connected(self._pool) as connection:
            return await _read(connection, caller, batch_id)

    async def scores(self, batch_id: str) -> Scores:
        """Returns how good the verdicts of a batch are."""
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("scores"), {"batch_id": batch_id})
            return scores_of(await cursor.fetchall())

    async def page(self, caller: Caller, *, subject: str, before: str | None, limit: int) -> list[BatchRecord]:
        """Returns batches that a caller may see, newest first, from before an id on."""
        sees_all = ROLE_OPERATOR in caller.roles
        if subject not in ("", caller.subject) and not sees_all:
            return []
        wanted = subject or (None if sees_all else caller.subject)
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement("list"), {"wanted": wanted, "before": before, "limit": limit})
            return [record_of(row) for row in await cursor.fetchall()]

    async def ended(self, batch_id: str, after: int, limit: int, *, with_runs: bool) -> list[ItemRecord]:
        """Returns items in the order in which they ended, behind the end with a number; with their runs if asked."""
        return await self._items(statement("ended"), batch_id, after, limit, with_runs=with_runs)

    async def items(self, batch_id: str, after: int, limit: int, *, with_inputs: bool = False) -> list[ItemRecord]:
        """Returns items in order, behind a number; with their inputs if asked."""
        return await self._items(statement("items"), batch_id, after, limit, with_inputs=with_inputs)

    async def _items(
        self, statement: LiteralString, batch_id: str, after: int, limit: int, **further: bool
    ) -> list[ItemRecord]:
        parameters = {"batch_id": batch_id, "after": after, "limit": limit, "bytes": READ_BYTES, **further}
        async with connected(self._pool) as connection:
            cursor = await connection.execute(statement, parameters)
            return [_item_of(row) for row in await cursor.fetchall()]

    async def _check_room(self, connection: AsyncConnection[dict[str, Any]], caller: Caller) -> None:
        """Checks that a caller, who is locked, may have one more batch under way. Raises TooManyBatches."""
        counted = await _one(connection, statement("under_way"), _identity(caller))
        if counted and counted["count"] >= self._limits.at_once:
            raise TooManyBatches(f"{self._limits.at_once} batches are under way already; let one end, or cancel it")

    async def _started(self, connection: AsyncConnection[dict[str, Any]], caller: Caller, batch_id: str) -> BatchRecord:
        parameters = {**_identity(caller), "batch_id": batch_id, "life_s": self._limits.life_s}
        await connection.execute(statement("start"), parameters)
        return await _read(connection, caller, batch_id)

    def _check_count(self, item_count: int) -> None:
        if item_count > self._limits.items:
            raise BatchTooLarge(f"a batch may have {self._limits.items} items, and is to have {item_count}")

    def _check_sizes(self, items: Sequence[NewItem]) -> None:
        most = self._limits.item_bytes
        wrong = [
            FieldViolation(f"items[{index}].input", f"has {len(item.content)} bytes, and may have {most}", "too_large")
            for index, item in enumerate(items)
            if len(item.content) > most
        ]
        if wrong:
            raise InvalidRequest(f"{len(wrong)} of {len(items)} items are too large", violations=wrong)


def record_of(row: dict[str, Any]) -> BatchRecord:
    """Returns the batch of a row, with counts where it has those."""
    return BatchRecord(
        batch_id=str(row["batch_id"]),
        caller=Caller(row["subject"], frozenset(row["roles"]), row["claims"]),
        name=row["name"],
        state=BatchState(row["state"]),
        item_count=row["item_count"],
        max_runs=row["max_runs"],
        pace=row["pace"],
        held_up_by=_LEFT if row.get("is_left") and row["state"] in UNDER_WAY else row["held_up_by"],
        ended_sequence=row["ended_sequence"],
        epoch=row["epoch"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        expires_at=row["expires_at"],
        counts=_counts_of(row) if "ended" in row else {},
    )


def _item_of(row: dict[str, Any]) -> ItemRecord:
    return ItemRecord(
        number=row["number"],
        key=row["key"],
        state=ItemState(row["state"]),
        retry_count=row["retry_count"],
        run_id=str(row["run_id"] or ""),
        run=bytes(row["run"] or b""),
        error=row["error"],
        ended_as=row["ended_as"] or 0,
        given=bytes(row["given"] or b""),
        input=bytes(row["input"] or b""),
    )


async def _one(
    connection: AsyncConnection[dict[str, Any]], statement: LiteralString, parameters: dict[str, Any]
) -> dict[str, Any] | None:
    cursor = await connection.execute(statement, parameters)
    return await cursor.fetchone()


def _counts_of(row: dict[str, Any]) -> dict[ItemState, int]:
    """Returns how many items are in each state that any is in."""
    ended = {ItemState(state): count for state, count in row["ended"].items()}
    pending = row["item_count"] - sum(ended.values()) - row["running"]
    counts = {ItemState.PENDING: pending, ItemState.RUNNING: row["running"], **ended}
    return {state: count for state, count in counts.items() if count}


async def _read(connection: AsyncConnection[dict[str, Any]], caller: Caller, batch_id: str | UUID) -> BatchRecord:
    wanted = {**_seen_by(caller), "batch_id": batch_id}
    return record_of(_there(await _one(connection, statement("get"), wanted)))


async def _locked(connection: AsyncConnection[dict[str, Any]], caller: Caller, batch_id: str) -> dict[str, Any]:
    return _there(await _one(connection, statement("lock"), {"batch_id": batch_id, "subject": caller.subject}))


async def _check_known(
    connection: AsyncConnection[dict[str, Any]], batch_id: str, first: int, known: Sequence[NewItem]
) -> None:
    """Holds items that are there already against what is given. Raises BatchItemOther."""
    if not known:
        return
    cursor = await connection.execute(
        statement("given"), {"batch_id": batch_id, "first": first, "last": first + len(known) - 1}
    )
    there = {row["number"]: (row["key"], bytes(row["digest"])) for row in await cursor.fetchall()}
    for number, item in enumerate(known, first):
        if there.get(number) != (item.key, hashlib.sha256(item.content).digest()):
            raise BatchItemOther(f"item {number} was given with another input", metadata={"number": str(number)})


def _there(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        raise BatchNotFound("there is no such batch")
    return row


def _must_be(row: dict[str, Any], *states: BatchState) -> None:
    if row["state"] not in states:
        wanted = " or ".join(state.value for state in states)
        raise BatchStateWrong(f"the batch is {row['state']}, not {wanted}", metadata={"state": row["state"]})


def _identity(caller: Caller) -> dict[str, Any]:
    return {
        "subject": caller.subject,
        "roles": sorted(caller.roles),
        "claims": json.dumps(dict(caller.claims)),
    }


def _seen_by(caller: Caller) -> dict[str, Any]:
    return {"subject": caller.subject, "sees_all": ROLE_OPERATOR in caller.roles}
