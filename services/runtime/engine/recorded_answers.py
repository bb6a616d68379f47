"""What the nodes of recorded runs heard, as the database keeps it."""

from __future__ import annotations

from typing import Any

from psycopg_pool import AsyncConnectionPool

from services.kit.identity.caller import Caller
from services.runtime.engine.pages import MOST_BYTES
from services.runtime.engine.queries import query
from services.runtime.engine.rights import has_rights_of
from services.runtime.engine.store import found_run
from services.runtime.errors import RolesLost, RunNotRecorded

MOST_ANSWERS = 500


class RecordedAnswers:
    """Reads recordings, page by page: so many answers at most, and of more than one no more than so many bytes."""

    def __init__(
        self, pool: AsyncConnectionPool[Any], *, most_bytes: int = MOST_BYTES, most_answers: int = MOST_ANSWERS
    ) -> None:
        self._pool = pool
        self._most_bytes = most_bytes
        self._most_answers = most_answers

    async def page(self, run_id: str, caller: Caller, after: int) -> tuple[list[tuple[int, bytes]], bool]:
        """Returns the next answers of a run by their number, and whether there may be more.

        Raises RunNotFound, RolesLost, RunNotRecorded.
        """
        where = {"run_id": run_id}
        async with self._pool.connection() as connection:
            run = await found_run(connection, run_id, caller)
            if not has_rights_of(caller, run):
                raise RolesLost(f"run {run_id} was made with roles that this caller has lost", metadata=where)
            if not run.recorded:
                raise RunNotRecorded(f"run {run_id} was not recorded; ask for it when a run is created", metadata=where)
            page = {"after": after, "limit": self._most_answers, "most_bytes": self._most_bytes}
            cursor = await connection.execute(query("list_answers"), {**where, **page})
            rows = await cursor.fetchall()
        return rows, bool(rows)


async def recorded_bytes(pool: AsyncConnectionPool[Any], run_id: str) -> int:
    """Returns the size of a run's recording."""
    async with pool.connection() as connection:
        cursor = await connection.execute(query("recorded_bytes"), {"run_id": run_id})
        ((size,),) = await cursor.fetchall()
    return int(size)
