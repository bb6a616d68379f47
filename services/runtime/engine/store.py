"""Runs in the database. Every write for a claimed run names its epoch; what it does is in `sql/`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.identity import Caller
from services.kit.logs import get_logger
from services.kit.names import ROLE_OPERATOR
from services.runtime.engine.identifiers import uuid7
from services.runtime.engine.queries import query
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import ActiveRunPolicy, Ending, InputRequest, NewRun, Orphans, RunRecord, RunState
from services.runtime.errors import (
    ClaimLost,
    InvalidAnswer,
    RequestIdReused,
    RunEnded,
    RunNotFound,
    StaleAnswer,
    ThreadBusy,
)
from services.runtime.metrics import RUN_DURATION, RUNS_ENDED

log = get_logger()
Parameters = Mapping[str, Any]
# How long the answer to a claim may take before the run counts as one that its owner does not know of.
STRAY_AFTER_S = 2.0


class RunStore:
    """The table `runs` and the moves between its states."""

    def __init__(
        self, pool: AsyncConnectionPool[Any], *, owner: str, lease_s: float, quota: CallerQuota | None = None
    ) -> None:
        self._pool = pool
        self._owner = owner
        self._lease_s = lease_s
        self._quota = quota or CallerQuota()

    async def create(self, new: NewRun, *, claim: bool) -> tuple[RunRecord, bool]:
        """Creates a run, claimed by this replica if asked and possible; returns it, and whether it is new.

        Raises ThreadBusy when the thread has an active run and the policy is to refuse, RequestIdReused,
        TooManyRunsAtOnce, TooManyRunsStarted.
        """
        parameters = self._parameters_of(new, claim=claim)
        async with self._pool.connection() as connection:
            if new.thread_id is None:
                created = await self._insert(connection, parameters)
            else:
                async with connection.transaction():
                    created = await self._create_in_thread(connection, new, parameters)
            if created is not None:
                return created, True
            return await self._found(connection, new), False

    def _parameters_of(self, new: NewRun, *, claim: bool) -> dict[str, Any]:
        return {
            "run_id": uuid7(),
            "agent": new.agent,
            "graph_version": new.graph_version,
            "subject": new.caller.subject,
            "roles": sorted(new.caller.roles),
            "thread_id": new.thread_id,
            "request_id": new.request_id,
            "correlation_id": new.correlation_id,
            "input": new.input,
            "budget": orjson.dumps(new.budget).decode(),
            "traceparent": new.traceparent,
            "owner": self._owner if claim else None,
            "lease_s": self._lease_s,
            "most_at_once": self._quota.runs_at_once,
            "most_per_minute": self._quota.runs_per_minute,
        }

    async def _insert(self, connection: AsyncConnection[Any], parameters: Parameters) -> RunRecord | None:
        """Inserts a run; returns None when its request is known. A repeat of a request breaks no quota."""
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(query("create_run"), parameters)
        row = await cursor.fetchone()
        if row is None or row["quota"] is None:
            return RunRecord.of(row) if row else None
        if parameters["request_id"] and await _one(connection, "find_request", parameters):
            return None
        raise self._quota.refusal(row["quota"], row["retry_after_s"])

    async def _create_in_thread(
        self, connection: AsyncConnection[Any], new: NewRun, parameters: dict[str, Any]
    ) -> RunRecord | None:
        await connection.execute(query("lock_thread"), parameters)
        if new.request_id and await _one(connection, "find_request", parameters):
            return None
        cursor = await connection.execute(query("active_runs_of_thread"), parameters)
        active = [str(run_id) for run_id, _ in await cursor.fetchall()]
        if active and new.active_run_policy is ActiveRunPolicy.REFUSE:
            raise ThreadBusy(
                f"thread {new.thread_id!r} has an active run; wait for it, cancel it, or ask to queue",
                metadata={"active_run_id": active[0]},
            )
        cancelled: list[RunRecord | None] = []
        if new.active_run_policy is ActiveRunPolicy.CANCEL_ACTIVE:
            cancelled = [await _one(connection, "cancel_run", {"run_id": run_id}) for run_id in active]
        created = await self._insert(connection, {**parameters, "owner": None if active else parameters["owner"]})
        for run in filter(None, cancelled):
            _noted(run)
        return created

    async def create_pending(self, connection: AsyncConnection[Any], new: NewRun) -> RunRecord:
        """Creates a pending run without a request id, in the caller's transaction.

        Raises TooManyRunsAtOnce, TooManyRunsStarted.
        """
        created = await self._insert(connection, self._parameters_of(replace(new, request_id=None), claim=False))
        assert created is not None, "only a known request creates nothing"  # noqa: S101 - an invariant of create_run.sql
        return created

    async def _found(self, connection: AsyncConnection[Any], new: NewRun) -> RunRecord:
        parameters = {"subject": new.caller.subject, "request_id": new.request_id}
        found = await _one(connection, "find_request", parameters)
        if found is None:
            raise RunNotFound("the run of this request has been removed")
        if (found.agent, found.input, found.thread_id) != (new.agent, new.input, new.thread_id):
            raise RequestIdReused(
                f"request id {new.request_id!r} was used with another input or thread; use a new one",
                metadata={"run_id": found.run_id},
            )
        return found

    async def get(self, run_id: str, caller: Caller) -> RunRecord:
        """Returns a run that the caller may see. Raises RunNotFound."""
        async with self._pool.connection() as connection:
            found = await _one(connection, "find_run", {"run_id": run_id, **_visible_to(caller)})
        if found is None:
            raise RunNotFound(f"there is no run {run_id} of this caller", metadata={"run_id": run_id})
        return found

    async def select(
        self,
        caller: Caller,
        *,
        limit: int,
        agent: str | None = None,
        state: RunState | None = None,
        thread_id: str | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[RunRecord]:
        """Returns runs that the caller may see, newest first, without input and output."""
        before_created, before_run_id = before or (None, None)
        parameters = {
            **_visible_to(caller),
            "limit": limit,
            "agent": agent,
            "state": state,
            "thread_id": thread_id,
            "before_created": before_created,
            "before_run_id": before_run_id,
        }
        return await self._many("list_runs", parameters)

    async def claim_pending(self, limit: int, agents: Collection[str]) -> list[RunRecord]:
        """Claims pending runs of some agents for this replica, oldest first."""
        parameters = {"owner": self._owner, "lease_s": self._lease_s, "limit": limit, "agents": list(agents)}
        return await self._many("claim_runs", parameters)

    async def renew_leases(self, executing: Collection[str]) -> None:
        """Renews the leases of the runs that this replica executes.

        Of no others: a claim whose answer was lost has an owner that does not know of it.
        """
        parameters = {"owner": self._owner, "lease_s": self._lease_s, "executing": list(executing)}
        async with self._pool.connection() as connection:
            await connection.execute(query("renew_leases"), parameters)

    async def take_over(self, executing: Collection[str]) -> Orphans:
        """Makes the runs that nobody executes pending again, or ends those that are to be cancelled.

        `executing` are those that this replica executes.
        """
        parameters = {
            "owner": self._owner,
            "executing": list(executing),
            "lease_s": self._lease_s,
            "stray_after_s": min(STRAY_AFTER_S, self._lease_s / 2),
        }
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("take_over"), parameters)
            rows = await cursor.fetchall()
        freed = [RunRecord.of(row) for row in rows if row["run_id"]]
        return Orphans(rows[0]["orphans"], [_noted(run).run_id for run in freed])

    async def expire_questions(self) -> list[str]:
        """Ends the runs whose question was not answered in time; returns their ids."""
        return [_noted(run).run_id for run in await self._many("expire_questions", {})]

    async def cancel_requests(self) -> list[str]:
        """Returns the ids of this replica's runs that have been asked to stop."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("cancel_requests"), {"owner": self._owner})
            return [run_id for (run_id,) in await cursor.fetchall()]

    async def release(self, run: RunRecord) -> None:
        """Lets go of a claimed run, for any replica to go on with, or ends it if it is to be cancelled."""
        for released in await self._many("release_run", {"run_id": run.run_id, "epoch": run.epoch}):
            _noted(released)

    async def end(self, run: RunRecord, ending: Ending) -> RunRecord:
        """Ends a claimed run. Raises ClaimLost."""
        parameters = {
            "run_id": run.run_id,
            "epoch": run.epoch,
            "state": ending.state,
            "output": ending.output,
            "stop_reason": ending.stop_reason,
            "error": ending.error,
        }
        return await self._claimed("end_run", parameters)

    async def await_input(self, run: RunRecord, asked: InputRequest) -> RunRecord:
        """Pauses a claimed run with a question, or ends it if it is to be cancelled. Raises ClaimLost."""
        request = {
            "input_request_id": asked.input_request_id,
            "question": asked.question,
            "options": list(asked.options),
            "expires_at": asked.expires_at.astimezone(UTC).isoformat(),
        }
        parameters = {"run_id": run.run_id, "epoch": run.epoch, "input_request": orjson.dumps(request).decode()}
        return await self._claimed("await_input", parameters)

    async def answer(self, run_id: str, caller: Caller, input_request_id: str, answer: str) -> RunRecord:
        """Takes the answer to a paused run's question. Raises RunNotFound, StaleAnswer, InvalidAnswer."""
        run = await self.get(run_id, caller)
        asked = run.input_request
        if asked and asked.input_request_id == input_request_id and run.answer == answer and not run.state.ended:
            return run  # asked again by a caller who did not get to know that the answer was taken
        if run.state is not RunState.AWAITING_INPUT or not asked or asked.input_request_id != input_request_id:
            raise StaleAnswer("the run does not ask this question now", metadata={"run_id": run_id})
        if asked.options and answer not in asked.options:
            raise InvalidAnswer(f"the answer must be one of: {', '.join(asked.options)}")
        parameters = {"run_id": run_id, "answer": answer, "input_request_id": input_request_id}
        async with self._pool.connection() as connection:
            answered = await _one(connection, "answer_run", parameters)
        if answered is None:
            raise StaleAnswer("the question has just been answered", metadata={"run_id": run_id})
        return answered

    async def cancel(self, run_id: str, caller: Caller) -> RunRecord:
        """Asks a run to stop, or ends it if nobody executes it. Raises RunNotFound, RunEnded."""
        run = await self.get(run_id, caller)
        async with self._pool.connection() as connection:
            changed = await _one(connection, "cancel_run", {"run_id": run_id})
        if changed is not None:
            return _noted(changed)
        run = await self.get(run_id, caller)
        if run.state is not RunState.CANCELLED:
            raise RunEnded(f"run {run_id} has already ended: {run.state}", metadata={"state": run.state})
        return run

    async def thread_turns(self, run: RunRecord, limit: int) -> list[tuple[bytes, bytes]]:
        """Returns input and output of the latest answered runs of the run's thread before it, oldest first."""
        parameters = {
            "subject": run.caller.subject,
            "thread_id": run.thread_id,
            "before": run.created_at,
            "limit": limit,
        }
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("thread_turns"), parameters)
            return [(asked, answered or b"") for asked, answered in reversed(await cursor.fetchall())]

    async def _claimed(self, name: str, parameters: Parameters) -> RunRecord:
        async with self._pool.connection() as connection:
            changed = await _one(connection, name, parameters)
        if changed is None:
            raise ClaimLost(f"run {parameters['run_id']} is no longer claimed at epoch {parameters['epoch']}")
        return _noted(changed)

    async def _many(self, name: str, parameters: Parameters) -> list[RunRecord]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query(name), parameters)
            return [RunRecord.of(row) for row in await cursor.fetchall()]


async def _one(connection: AsyncConnection[Any], name: str, parameters: Parameters) -> RunRecord | None:
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(query(name), parameters)
    row = await cursor.fetchone()
    return RunRecord.of(row) if row else None


def _noted(run: RunRecord) -> RunRecord:
    """Counts and logs a run that has just ended, if it has."""
    if run.ended_at is not None:
        RUNS_ENDED.labels(run.agent, run.state, run.stop_reason).inc()
        RUN_DURATION.labels(run.agent).observe((run.ended_at - run.created_at).total_seconds())
        log.info("run ended", run_id=run.run_id, state=run.state, stop_reason=run.stop_reason)
    return run


def _visible_to(caller: Caller) -> dict[str, Any]:
    return {"subject": caller.subject, "any_subject": ROLE_OPERATOR in caller.roles}
