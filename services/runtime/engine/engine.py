"""The engine of a replica: which runs it executes, and how it hands them over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.kit.identity import Caller
from services.kit.logs import get_logger
from services.runtime.engine.background import attempt
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.events import Event
from services.runtime.engine.execution import CANCELLED, HANDED_OVER, Dependencies, Execution
from services.runtime.engine.records import Ending, NewRun, RunRecord, RunState
from services.runtime.errors import ClaimLost, DatabaseAway, Draining
from services.runtime.metrics import RUNS_ACTIVE, RUNS_ORPHANED, RUNS_STARTED, RUNS_TAKEN_OVER

log = get_logger()
CLAIM_LIMIT = "claim_limit"


@dataclass(frozen=True)
class EngineLimits:
    """How much a replica takes on, and how it keeps time."""

    max_concurrent_runs: int
    lease_s: float
    sweep_interval_s: float
    drain_s: float
    max_idle_claims: int = 10


class Engine:
    """Creates, claims and executes runs until it is drained."""

    def __init__(self, shared: Dependencies, limits: EngineLimits, clock: ClockWatch | None = None) -> None:
        self._shared = shared
        self._clock = clock or ClockWatch(0)
        self._limits = limits
        self._executions: dict[str, tuple[Execution, asyncio.Task[None]]] = {}
        self._draining = False
        self._wake = asyncio.Event()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Claims pending runs and keeps the leases of its own inside the context."""
        loops = [asyncio.create_task(loop) for loop in (self._claim_loop(), self._sweep_loop(), self._lease_loop())]
        try:
            yield
        finally:
            await self.drain()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def create(self, new: NewRun) -> tuple[RunRecord, bool]:
        """Creates a run and starts it here when there is room. Raises what `RunStore.create` does, and Draining."""
        if self._draining:
            raise Draining("this replica takes no new runs; ask another")
        # Shielded: the caller may go away between the claim and its answer, and the run would have nobody.
        return await asyncio.shield(asyncio.create_task(self._create(new)))

    async def _create(self, new: NewRun) -> tuple[RunRecord, bool]:
        run, is_new = await self._shared.store.create(new, claim=self._room() > 0)
        if is_new and run.state is RunState.RUNNING:
            RUNS_STARTED.labels(run.agent, "created").inc()
            self._start(run)
        else:
            self._wake.set()
        return run, is_new

    def watch(self, run: RunRecord, after: int, *, fresh: bool = False) -> AsyncIterator[Event]:
        """Yields a run's events after a sequence number. Raises Draining."""
        return self._shared.events.watch(run, after, fresh=fresh and after == run.event_count)

    async def cancel(self, run_id: str, caller: Caller) -> RunRecord:
        """Asks a run to stop at its next step boundary. Raises RunNotFound, RunEnded."""
        run = await self._shared.store.cancel(run_id, caller)
        if run_id in self._executions:
            self._executions[run_id][0].stop(CANCELLED)
        self._wake.set()
        return run

    async def answer(self, run_id: str, caller: Caller, input_request_id: str, answer: str) -> RunRecord:
        """Answers a paused run's question. Raises RunNotFound, StaleAnswer, InvalidAnswer."""
        run = await self._shared.store.answer(run_id, caller, input_request_id, answer)
        self._wake.set()
        return run

    async def drain(self) -> None:
        """Takes no new runs, hands its own over at their next step boundary, and ends all watches."""
        self._draining = True
        executions = list(self._executions.values())
        for execution, _ in executions:
            execution.stop(HANDED_OVER)
        tasks = [task for _, task in executions]
        if tasks:
            _, slow = await asyncio.wait(tasks, timeout=self._limits.drain_s)
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
        self._shared.events.close()

    def _room(self) -> int:
        return 0 if self._draining or self._clock.off else self._limits.max_concurrent_runs - len(self._executions)

    def _start(self, run: RunRecord) -> None:
        if run.run_id in self._executions:
            # It was taken from this replica and has come back; what goes on at the old epoch can write nothing more.
            self._executions[run.run_id][1].cancel()
        execution = Execution(self._shared, run)
        task = asyncio.create_task(execution.go(), name=f"run {run.run_id}")
        self._executions[run.run_id] = (execution, task)
        RUNS_ACTIVE.set(len(self._executions))
        task.add_done_callback(lambda _: self._ended(run.run_id, execution))
        if self._draining:
            execution.stop(HANDED_OVER)

    def _ended(self, run_id: str, execution: Execution) -> None:
        was_full = self._room() <= 0
        # A run that was given back may already be here again.
        if run_id in self._executions and self._executions[run_id][0] is execution:
            del self._executions[run_id]
        RUNS_ACTIVE.set(len(self._executions))
        if was_full or execution.run.thread_id:
            self._wake.set()

    async def _claim_loop(self) -> None:
        """Claims pending runs: at once when there is reason to think that there are some, else now and then."""
        while True:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.sweep_interval_s):
                    await self._wake.wait()
            self._wake.clear()
            if (room := self._room()) > 0:
                await self._attempt("claim", self._claim(room))

    async def _claim(self, room: int) -> None:
        for run in await self._shared.store.claim_pending(room, self._shared.agents):
            RUNS_STARTED.labels(run.agent, "taken_over" if run.epoch > 1 else "queued").inc()
            if run.idle_claims > self._limits.max_idle_claims:
                await self._give_up(run)
            else:
                self._start(run)

    async def _give_up(self, run: RunRecord) -> None:
        """Ends a run that has been claimed again and again without taking a step."""
        log.error("run given up", run_id=run.run_id, idle_claims=run.idle_claims)
        error = f"the run was started {run.idle_claims - 1} times without taking a step"
        try:
            await self._shared.store.end(run, Ending(RunState.FAILED, None, CLAIM_LIMIT, error))
        except (ClaimLost, DatabaseAway) as lost:
            log.warning("could not give the run up; its next claim will", run_id=run.run_id, error=str(lost))

    async def _sweep_loop(self) -> None:
        while True:
            await self._attempt("sweep", self._sweep())
            await asyncio.sleep(self._limits.sweep_interval_s)

    async def _sweep(self) -> None:
        store = self._shared.store
        if self._clock.off:
            for execution, _ in self._executions.values():
                execution.stop(HANDED_OVER)
        orphans = await store.take_over(self._executions)
        RUNS_ORPHANED.set(orphans.found)
        if orphans.freed:
            RUNS_TAKEN_OVER.inc(len(orphans.freed))
            log.warning("runs of gone replicas are pending again", runs=orphans.freed)
            self._wake.set()
        await store.expire_questions()
        for run_id in await store.cancel_requests() if self._executions else ():
            if run_id in self._executions:
                self._executions[run_id][0].stop(CANCELLED)

    async def _lease_loop(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease_s / 3)
            if self._executions:
                await self._attempt("renew_leases", self._shared.store.renew_leases(self._executions))

    async def _attempt(self, work: str, doing: Awaitable[None]) -> None:
        if not await attempt(work, doing):
            # Each connection that broke would fail one statement more.
            await attempt("check_connections", self._shared.pool.check())
