"""Runs in the database, as callers and executions change them; what each statement does is in `sql/`.

Every write for a claimed run names its epoch and its claim. What replicas do for all runs is in `upkeep.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import orjson
from opentelemetry import context, propagate, trace
from psycopg import AsyncConnection
from psycopg.rows import dict_row, kwargs_row

from services.kit.identifiers import uuid7
from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import exemplar
from services.kit.telemetry.names import ROLE_OPERATOR, RUN_ID
from services.runtime.agents.run_key import RunKey
from services.runtime.engine.database import Pools
from services.runtime.engine.keys import keep_key, lock_key, run_of_key
from services.runtime.engine.pins import Pins
from services.runtime.engine.queries import query
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import (
    ORIGINS,
    ActiveRunPolicy,
    Ending,
    InputRequest,
    NewRun,
    OwnedRun,
    RunRecord,
    RunState,
    ThreadTurn,
)
from services.runtime.errors import (
    ClaimLost,
    RequestIdReused,
    RunEnded,
    RunNotFound,
    ThreadBusy,
)
from services.runtime.metrics import RUN_DURATION, RUN_OUTCOMES, RUNS_ENDED, show_budget_used
from services.runtime.routing.recorder import CallRecord, LeadingDecision
from services.runtime.routing.waiting import Wait

log = get_logger()
Parameters = Mapping[str, Any]


class RunStore:
    """The table `runs` and the moves between its states."""

    def __init__(
        self, pools: Pools, pins: Pins, *, owner: str, lease_s: float, quota: CallerQuota | None = None
    ) -> None:
        self._pools = pools
        self._pins = pins
        self._owner = owner
        self._lease_s = lease_s
        self._quota = quota or CallerQuota()

    async def create(self, new: NewRun, *, claim: bool, claim_id: str | None = None) -> tuple[RunRecord, bool]:
        """Creates a run, claimed by this replica if asked and possible; returns it, and whether it is new.

        Raises ThreadBusy when the thread has an active run and the policy is to refuse, RequestIdReused, RunKeyReused,
        TooManyRunsAtOnce, TooManyRunsStarted.
        """
        parameters = self._parameters_of(new, claim_id=(claim_id or str(uuid4())) if claim else None)
        async with self._pools.calls.connection() as connection:
            if new.key is not None:
                async with connection.transaction():
                    return await self._create_by_key(connection, new, new.key, parameters)
            if new.thread_id is None:
                created = await self._insert(connection, parameters)
            else:
                async with connection.transaction():
                    created = await self._create_in_thread(connection, new, parameters)
                    if created is None:
                        # In the transaction: a request id that was used otherwise leaves no empty thread behind.
                        return await self._found(connection, new), False
            if created is not None:
                return created, True
            return await self._found(connection, new), False

    def _parameters_of(self, new: NewRun, *, claim_id: str | None) -> dict[str, Any]:
        origins = dict(new.budget_origins)
        return {
            "run_id": uuid7(),
            "agent": new.agent,
            "graph_version": new.graph_version,
            "subject": new.caller.subject,
            "roles": sorted(new.caller.roles),
            "claims": orjson.dumps(dict(new.caller.claims)).decode(),
            "thread_id": new.thread_id,
            "request_id": new.request_id,
            "correlation_id": new.correlation_id,
            "input": new.input,
            "budget": orjson.dumps({**new.budget, **({ORIGINS: origins} if origins else {})}).decode(),
            "labels": orjson.dumps(dict(new.labels)).decode(),
            "title": new.title,
            "recorded": new.recorded,
            "callback_events": new.callback_events,
            "waiting_for": new.waiting_for,
            "traceparent": new.traceparent,
            "owner": self._owner if claim_id else None,
            "asked_by": self._owner if new.chunks_asked else None,
            "claim_id": claim_id,
            "lease_s": self._lease_s,
            "pins": self._pins.of_agent(new.agent),
            "most_at_once": self._quota.runs_at_once,
            "most_per_minute": self._quota.runs_per_minute,
            "most_tokens": self._quota.tokens_per_day,
            "most_waiting": self._quota.runs_waiting,
        }

    async def _insert(self, connection: AsyncConnection[Any], parameters: Parameters) -> RunRecord | None:
        """Inserts a run; returns None when its request is known. A repeat of a request breaks no quota."""
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(query("create_run"), parameters)
        row = await cursor.fetchone()
        if row is None or row["quota"] is None:
            return RunRecord.of(row) if row else None
        if parameters["request_id"] and await one(connection, "find_request", parameters):
            return None
        raise self._quota.refusal(row["quota"], row["retry_after_s"])

    async def _create_by_key(
        self, connection: AsyncConnection[Any], new: NewRun, key: RunKey, parameters: dict[str, Any]
    ) -> tuple[RunRecord, bool]:
        if new.request_id and await one(connection, "find_request", parameters):
            return await self._found(connection, new), False
        # A repeat, which is what most are, holds nobody up and writes nothing.
        if found := await run_of_key(connection, new, key):
            return found, False
        await lock_key(connection, new, key)
        if found := await run_of_key(connection, new, key):
            return found, False
        if new.thread_id is None:
            created = await self._insert(connection, parameters)
        else:
            created = await self._create_in_thread(connection, new, parameters)
        if created is None:
            # The same request, for another key, was faster.
            return await self._found(connection, new), False
        await keep_key(connection, new, key, created.run_id)
        return created, True

    async def _create_in_thread(
        self, connection: AsyncConnection[Any], new: NewRun, parameters: dict[str, Any]
    ) -> RunRecord | None:
        await connection.execute(query("lock_thread"), parameters)
        if new.request_id and await one(connection, "find_request", parameters):
            return None
        active = await self._active_in_thread(connection, new)
        cancelled: list[RunRecord | None] = []
        if new.active_run_policy in (ActiveRunPolicy.CANCEL_ACTIVE, ActiveRunPolicy.ROLL_BACK_ACTIVE):
            rolls_back = new.active_run_policy is ActiveRunPolicy.ROLL_BACK_ACTIVE
            by = parameters["run_id"] if rolls_back else None
            cancelled = [
                await one(connection, "cancel_run", {"run_id": run_id, "rolled_back_by": by}) for run_id in active
            ]
        created = await self._insert(connection, {**parameters, "owner": None if active else parameters["owner"]})
        for run in filter(None, cancelled):
            noted(run)
        return created

    async def _active_in_thread(self, connection: AsyncConnection[Any], new: NewRun) -> list[str]:
        """Returns the active runs of a new run's thread, which is locked. Raises ThreadBusy where it refuses any."""
        parameters = {"subject": new.caller.subject, "thread_id": new.thread_id}
        cursor = await connection.execute(query("active_runs_of_thread"), parameters)
        active = [str(run_id) for run_id, _ in await cursor.fetchall()]
        if active and new.active_run_policy is ActiveRunPolicy.REFUSE:
            raise ThreadBusy(
                f"thread {new.thread_id!r} has an active run; wait for it, cancel it, or ask to queue",
                metadata={"active_run_id": active[0]},
            )
        return active

    async def enter_thread(self, connection: AsyncConnection[Any], new: NewRun) -> None:
        """Locks the thread of a run that is about to be created pending. Raises ThreadBusy."""
        parameters = {"subject": new.caller.subject, "thread_id": new.thread_id}
        await connection.execute(query("lock_thread"), parameters)
        await self._active_in_thread(connection, new)

    async def create_pending(self, connection: AsyncConnection[Any], new: NewRun) -> RunRecord | None:
        """Creates a pending run in the caller's transaction; None when its request is known.

        Raises TooManyRunsAtOnce, TooManyRunsStarted.
        """
        return await self._insert(connection, self._parameters_of(new, claim_id=None))

    async def ask_chunks(self, run_id: str) -> None:
        """Has whoever claims a run next know that its chunks are asked for here."""
        async with self._pools.calls.connection() as connection:
            await connection.execute(query("ask_chunks"), {"run_id": run_id, "asked_by": self._owner})

    async def ask_callback_events(self, run_id: str) -> None:
        """Has whoever claims a run from now on keep what callbacks tell."""
        async with self._pools.calls.connection() as connection:
            await connection.execute(query("ask_callback_events"), {"run_id": run_id})

    async def of_request(self, caller: Caller, request_id: str) -> RunRecord | None:
        """Returns the run that a request of a caller has created, if any."""
        async with self._pools.calls.connection() as connection:
            return await one(connection, "find_request", {"subject": caller.subject, "request_id": request_id})

    async def is_known(self, new: NewRun) -> bool:
        """True when the run has been created before, by the same request or under the same key."""
        parameters = {"subject": new.caller.subject, "request_id": new.request_id}
        if new.request_id is None and new.key is None:
            return False
        async with self._pools.calls.connection() as connection:
            if new.key is not None and await run_of_key(connection, new, new.key):
                return True
            return new.request_id is not None and await one(connection, "find_request", parameters) is not None

    async def _found(self, connection: AsyncConnection[Any], new: NewRun) -> RunRecord:
        parameters = {"subject": new.caller.subject, "request_id": new.request_id}
        found = await one(connection, "find_request", parameters)
        if found is None:
            raise RunNotFound("the run of this request has been removed")
        asked = (new.agent, new.input, new.thread_id, None)
        if (found.agent, found.input, found.thread_id, found.forked_from) != asked:
            raise RequestIdReused(
                f"request id {new.request_id!r} was used with another input or thread; use a new one",
                metadata={"run_id": found.run_id},
            )
        return found

    async def get(self, run_id: str, caller: Caller) -> RunRecord:
        """Returns a run that the caller may see. Raises RunNotFound."""
        async with self._pools.calls.connection() as connection:
            return await found_run(connection, run_id, caller)

    async def release(self, run: RunRecord | OwnedRun) -> RunRecord | None:
        """Lets go of a claimed run, for any replica to go on with, or ends it if it is to be cancelled.


        Returns it, or None when it is no longer claimed so.
        """
        parameters = {"run_id": run.run_id, "epoch": run.epoch, "claim_id": run.claim_id}
        async with self._pools.steps.connection() as connection:
            released = await one(connection, "release_run", parameters)
        return noted(released) if released else None

    async def wait(self, run: RunRecord, wait: Wait) -> RunRecord:
        """Lets go of a claimed run until what it waits for may be back, or ends it if it is to be cancelled.

        Raises ClaimLost.
        """
        parameters = {
            "run_id": run.run_id,
            "epoch": run.epoch,
            "claim_id": run.claim_id,
            "delay_s": wait.delay_s,
            "dependency": wait.dependency,
            "cause": wait.cause,
            "attempts": orjson.dumps(wait.attempts).decode(),
        }
        return await self._claimed("wait_run", parameters)

    async def end(self, run: RunRecord, ending: Ending, event: Mapping[str, Any] | None = None) -> RunRecord:
        """Ends a claimed run; `event` is what the event says. Raises ClaimLost."""
        parameters = {
            "run_id": run.run_id,
            "epoch": run.epoch,
            "claim_id": run.claim_id,
            "state": ending.state,
            "output": ending.output,
            "outcome": ending.outcome,
            "stop_reason": ending.stop_reason,
            "retryable": ending.retryable,
            "error": ending.error,
            "event": orjson.dumps(event).decode() if event else None,
        }
        return await self._claimed("end_run", parameters)

    async def await_input(
        self,
        run: RunRecord,
        asked: InputRequest,
        attempts: Sequence[CallRecord] | None = None,
        event: Mapping[str, Any] | None = None,
    ) -> RunRecord:
        """Pauses a claimed run with a question, or ends it if it is to be cancelled. Raises ClaimLost.

        `attempts` are calls that no step has taken over; None is those that the run's row has already. `event` is what
        the event says besides.
        """
        parameters = {
            "run_id": run.run_id,
            "epoch": run.epoch,
            "claim_id": run.claim_id,
            "input_request": orjson.dumps(asked.to_data()).decode(),
            "attempts": None if attempts is None else orjson.dumps(attempts).decode(),
            "event": orjson.dumps(event or {}).decode(),
        }
        return await self._claimed("await_input", parameters)

    async def cancel(self, run_id: str, caller: Caller) -> RunRecord:
        """Asks a run to stop, or ends it if nobody executes it. Raises RunNotFound, RunEnded."""
        run = await self.get(run_id, caller)
        async with self._pools.calls.connection() as connection:
            changed = await one(connection, "cancel_run", {"run_id": run_id, "rolled_back_by": None})
        if changed is not None:
            return noted(changed)
        run = await self.get(run_id, caller)
        if run.state is not RunState.CANCELLED:
            raise RunEnded(f"run {run_id} has already ended: {run.state}", metadata={"state": run.state})
        return run

    async def thread_turns(self, run: RunRecord, limit: int) -> list[ThreadTurn]:
        """Returns the latest answered runs of the run's thread before it, oldest first.

        Runs made with a role that this one lacks are left out.
        """
        parameters = {
            "subject": run.caller.subject,
            "roles": sorted(run.caller.roles),
            "thread_id": run.thread_id,
            "before": run.created_at,
            "limit": limit,
        }
        async with self._pools.steps.connection() as connection:
            cursor = await connection.execute(query("thread_turns"), parameters)
            return [ThreadTurn(*row) for row in reversed(await cursor.fetchall())]

    async def has_decided(self, run: RunRecord, router: str) -> bool:
        """Tells whether a router has decided anything in a run."""
        async with self._pools.steps.connection() as connection:
            cursor = await connection.execute(query("has_decided"), {"run_id": run.run_id, "router": router})
            return await cursor.fetchone() is not None

    async def leading_decision(self, run: RunRecord, nodes: Sequence[str]) -> list[LeadingDecision]:
        """Returns the decision that led to the nodes that a run goes on with; none where an edge did."""
        parameters = {"run_id": run.run_id, "nodes": list(nodes)}
        async with self._pools.steps.connection() as connection:
            cursor = connection.cursor(row_factory=kwargs_row(LeadingDecision))
            await cursor.execute(query("leading_decision"), parameters)
            return await cursor.fetchall()

    async def _claimed(self, name: str, parameters: Parameters) -> RunRecord:
        async with self._pools.steps.connection() as connection:
            changed = await one(connection, name, parameters)
        if changed is None:
            raise ClaimLost(f"run {parameters['run_id']} is no longer claimed at epoch {parameters['epoch']}")
        return noted(changed)


async def one(connection: AsyncConnection[Any], name: str, parameters: Parameters) -> RunRecord | None:
    """Returns the run that a query gives, if any."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(query(name), parameters)
    row = await cursor.fetchone()
    return RunRecord.of(row) if row else None


async def many(connection: AsyncConnection[Any], name: str, parameters: Parameters) -> list[RunRecord]:
    """Returns the runs that a query gives."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(query(name), parameters)
    return [RunRecord.of(row) for row in await cursor.fetchall()]


async def found_run(connection: AsyncConnection[Any], run_id: str, caller: Caller) -> RunRecord:
    """Returns a run that the caller may see. Raises RunNotFound."""
    found = await one(connection, "find_run", {"run_id": run_id, **_visible_to(caller)})
    if found is None:
        raise RunNotFound(f"there is no run {run_id} of this caller", metadata={"run_id": run_id})
    return found


def noted(run: RunRecord) -> RunRecord:
    """Counts and logs a run that has just ended, if it has."""
    if run.ended_at is not None:
        RUNS_ENDED.labels(run.agent, run.state, run.stop_reason).inc()
        RUN_OUTCOMES.labels(run.agent, run.outcome).inc()
        taken_s = (run.ended_at - run.created_at).total_seconds()
        RUN_DURATION.labels(run.agent, run.state).observe(taken_s, _exemplar_of(run))
        show_budget_used(run.agent, run.spend, run.budget)
        log.info("run ended", run_id=run.run_id, state=run.state, outcome=run.outcome, stop_reason=run.stop_reason)
    return run


def _exemplar_of(run: RunRecord) -> dict[str, str]:
    """The run itself, and its trace if that is recorded; who ends it may do so in another."""
    begun_in = trace.get_current_span(propagate.extract({"traceparent": run.traceparent}, context.Context()))
    return {RUN_ID: run.run_id, **(exemplar(begun_in) or {})}


def _visible_to(caller: Caller) -> dict[str, Any]:
    return {"subject": caller.subject, "any_subject": ROLE_OPERATOR in caller.roles}
