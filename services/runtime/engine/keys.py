"""Runs that callers have one of for each name: the run by its key, found or created, whoever asks at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from services.kit.outcome import Outcome
from services.runtime.agents.run_key import RunKey
from services.runtime.engine.queries import query
from services.runtime.engine.records import NewRun, RunRecord, RunState
from services.runtime.errors import RunKeyReused


async def run_of_key(connection: AsyncConnection[Any], new: NewRun, key: RunKey) -> RunRecord | None:
    """Returns the run that has the key; None when there is to be a new one. Raises RunKeyReused for other content."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(query("find_key"), _place(new, key))
    row = await cursor.fetchone()
    if row is None:
        return None
    found = RunRecord.of(row)
    if key.again and (found.state in (RunState.FAILED, RunState.CANCELLED) or found.outcome == Outcome.BLOCKED):
        return None
    if row["digest"] != key.digest:
        raise RunKeyReused(
            f"{key.name!r} was used with another input; use a new one",
            metadata={"run_id": found.run_id, "key": key.name},
        )
    return found


async def lock_key(connection: AsyncConnection[Any], new: NewRun, key: RunKey) -> None:
    """Holds a key until the transaction ends."""
    await connection.execute(query("lock_key"), _place(new, key))


async def keep_key(connection: AsyncConnection[Any], new: NewRun, key: RunKey, run_id: str) -> None:
    """Gives a key that is held to a run."""
    await connection.execute(query("keep_key"), {**_place(new, key), "run_id": run_id, "digest": key.digest})


def _place(new: NewRun, key: RunKey) -> Mapping[str, str]:
    return {"subject": new.caller.subject, "agent": new.agent, "key": key.name}
