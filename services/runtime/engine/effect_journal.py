"""What is kept of the effects of a claimed run's own functions: that one began, and what came of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.claim import Claim
from services.runtime.engine.queries import query
from services.runtime.engine.saver import StateTooLargeError
from services.runtime.errors import ClaimLost


class EarlierEffect(NamedTuple):
    """An effect that began before, and its result if it ended."""

    ended: bool
    result: Any


class EffectJournal:
    """The journal of one claimed run; each statement names its claim."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serde: SerializerProtocol,
        claim: Claim,
        *,
        max_step_bytes: int | None = None,
    ) -> None:
        self._pool = pool
        self._max_step_bytes = max_step_bytes
        self._serde = serde
        self._claim = claim

    async def kept(self, operation: str) -> Any:
        """Returns the result that is kept of an effect; None where there is none."""
        async with self._pool.connection() as connection:
            parameters = {**self._fenced, "operation": operation}
            cursor = await connection.execute(query("kept_effect"), parameters)
            row = await cursor.fetchone()
        return self._serde.loads_typed((row[0], bytes(row[1]))) if row else None

    async def begin(self, operation: str, name: str) -> EarlierEffect | None:
        """Writes down that an effect begins; returns what is known of it from before. Raises ClaimLost."""
        async with self._pool.connection() as connection:
            parameters = {**self._fenced, "operation": operation, "name": name}
            cursor = await connection.execute(query("begin_effect"), parameters)
            row = await cursor.fetchone()
        if row is None:
            raise self._lost()
        known, ended, result_type, result = row
        if not known:
            return None
        return EarlierEffect(ended, self._serde.loads_typed((result_type, bytes(result))) if ended else None)

    async def end(self, operation: str, result: Any) -> None:
        """Keeps the result of an effect. Raises ClaimLost.

        One that no state may hold raises TypeNotAllowedError, a larger one than a step may change StateTooLargeError.
        """
        result_type, stored = self._serde.dumps_typed(result)
        if self._max_step_bytes is not None and len(stored) > self._max_step_bytes:
            most = f"the limit max_step_bytes is {self._max_step_bytes:,}"
            raise StateTooLargeError(f"an effect has a result of {len(stored):,} bytes, {most}")
        self._serde.loads_typed((result_type, stored))  # who repeats it has to read it
        async with self._pool.connection() as connection:
            parameters = {**self._fenced, "operation": operation, "result_type": result_type, "result": stored}
            cursor = await connection.execute(query("end_effect"), parameters)
        if not cursor.rowcount:
            raise self._lost()

    @property
    def _fenced(self) -> dict[str, Any]:
        return {"run_id": self._claim.run_id, "epoch": self._claim.epoch, "claim_id": self._claim.claim_id}

    def _lost(self) -> ClaimLost:
        return ClaimLost(f"run {self._claim.run_id} is no longer claimed at epoch {self._claim.epoch}")
