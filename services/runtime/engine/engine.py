"""The engine of a replica: which runs it executes, and how it hands them over."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from uuid import uuid4

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import detached, stop
from services.runtime.engine.admission import Admission
from services.runtime.engine.background import SELDOM, attempt
from services.runtime.engine.backlog import Backlog
from services.runtime.engine.broken_off import BrokenOffRuns
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.events import Event
from services.runtime.engine.execution import HANDED_OVER, Dependencies, Execution
from services.runtime.engine.questions import Answer
from services.runtime.engine.records import NewRun, Orphans, OwnedRun, RunRecord, RunState
from services.runtime.engine.upkeep import Upkeep
from services.runtime.errors import Draining, Overloaded
from services.runtime.metrics import (
    RUNS_ACTIVE,
    RUNS_CAPACITY,
    RUNS_ORPHANED,
    RUNS_STARTED,
    RUNS_TAKEN_OVER,
    begin_works,
)
from services.runtime.routing.stopping import CANCELLED

log = get_logger()
CANCEL_AGAIN_S = 1.0
# How much less often a replica looks for work while the platform has none; what is created wakes its own replica.
QUIET = 4


@dataclass(frozen=True)
class EngineLimits:
    """How much a replica takes on, and how it keeps time."""

    max_concurrent_runs: int
    lease_s: float
    sweep_interval_s: float
    drain_s: float
    round_s: float = 20.0


class Engine:
    """Creates, claims and executes runs until it is drained."""

    def __init__(
        self,
        shared: Dependencies,
        upkeep: Upkeep,
        limits: EngineLimits,
        *,
        admission: Admission,
        clock: ClockWatch | None = None,
        settled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._shared = shared
        self._upkeep = upkeep
        self._limits = limits
        self._admission = admission
        self._clock = clock or ClockWatch(0)
        self._broken_off = BrokenOffRuns(shared.pool, shared.serde, shared.agents)
        # Whether other replicas have had the time to show that they live, since the database was last away.
        self._settled = settled
        self._executions: dict[str, tuple[Execution, asyncio.Task[None]]] = {}
        # Claims whose answer is not dealt with yet, and the places that are kept for what they bring.
        self._claims: dict[str, int] = {}
        # More may be waiting than the last claim found room for: who is created now must not go before those.
        self._behind = False
        # Until it has taken a step, nothing else is begun here.
        self._suspect: RunRecord | None = None
        self._suspect_begun = False
        self._quiet = False
        self._draining = False
        # A replica whose own lease may be over claims nothing: others would take it for a gone one's.
        self._renewed_at = -math.inf
        self._wake = asyncio.Event()
        self._backlog = Backlog(admission, upkeep)
        shared.events.on_cancel = self._stop

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Claims pending runs and keeps the leases of its own inside the context."""
        RUNS_CAPACITY.set(self._limits.max_concurrent_runs)
        begin_works()
        await self._attempt("renew_leases", self._renew_leases())
        loops = [asyncio.create_task(loop) for loop in (self._claim_loop(), self._sweep_loop(), self._lease_loop())]
        try:
            yield
        finally:
            await self.drain()
            await stop(*loops)
            await attempt("add_tokens", self._upkeep.add_tokens(self._shared.tokens_spent))
            await attempt("leave", self._upkeep.leave())

    async def create(self, new: NewRun) -> tuple[RunRecord, bool]:
        """Creates a run and starts it here when there is room.

        Raises what `RunStore.create` does, Draining, and Overloaded for what is not the repeat of a known request.
        """
        if self._draining:
            raise Draining("this replica takes no new runs; ask another")
        try:
            self._admission.check_run()
        except Overloaded:
            if not await self._shared.store.is_known(new):
                raise
        # Shielded: the caller may go away between the claim and its answer, and the run would have nobody.
        return await asyncio.shield(asyncio.create_task(self._create(new)))

    async def _create(self, new: NewRun) -> tuple[RunRecord, bool]:
        is_here = self._shared.carrier.is_here(new.agent)
        claim = is_here and self._room() > 0 and not self._behind
        with self._claiming(int(claim)) as claim_id:
            run, is_new = await self._shared.store.create(new, claim=claim, claim_id=claim_id)
            if is_new and new.chunks_asked:
                self._shared.events.asked_presently(run.run_id, registered=run.state is RunState.PENDING)
            if is_new and run.state is RunState.RUNNING:
                RUNS_STARTED.labels(run.agent, "created").inc()
                self._upkeep.had_turn(run.caller.subject)
                self._start(run)
            elif is_here:
                self._behind = True
                self._wake.set()
        if not is_here and is_new:
            await self._shared.offers.tell_of_work(new.agent)
        return run, is_new

    @contextmanager
    def _claiming(self, places: int) -> Iterator[str]:
        """Keeps places for the runs of one claim; yields the claim's id."""
        claim_id = str(uuid4())
        self._claims[claim_id] = places
        try:
            yield claim_id
        finally:
            del self._claims[claim_id]

    @property
    def busy(self) -> bool:
        """Whether a run is executed here, waiting for a model or a tool included."""
        return bool(self._executions)

    def watch(
        self, run: RunRecord, after: int, *, fresh: bool = False, chunks: bool = False, callback_events: bool = False
    ) -> AsyncIterator[Event]:
        """Yields a run's events after a sequence number, with what its models say if asked. Raises Draining."""
        return self._shared.events.watch(
            run, after, fresh=fresh and after == run.event_count, chunks=chunks, callback_events=callback_events
        )

    async def cancel(self, run_id: str, caller: Caller) -> RunRecord:
        """Has a run stop. Raises RunNotFound, RunEnded."""
        run = await self._shared.store.cancel(run_id, caller)
        self._stop(run_id)
        self._wake.set()
        return run

    def _stop(self, run_id: str) -> None:
        if run_id in self._executions:
            self._executions[run_id][0].stop(CANCELLED)

    async def with_output(self, run: RunRecord) -> RunRecord:
        """Returns a run with what it brought, also where it was cancelled or failed before it said so."""
        return await self._broken_off.with_output(run)

    async def answer(
        self, caller: Caller, given: Answer, *, chunks: bool = False, callback_events: bool = False
    ) -> None:
        """Answers a paused run's question; `chunks`: of a run that is watched with its chunks at once.

        `callback_events`: what callbacks tell from here on is kept.

        Raises what `Questions.answer` does.
        """
        if chunks:
            await self._shared.store.ask_chunks(given.run_id)
            self._shared.events.asked_presently(given.run_id)
        if callback_events:
            await self._shared.store.ask_callback_events(given.run_id)
        agent = await self._shared.questions.answer(caller, given)
        await self.tell_of_work(agent)

    async def tell_of_fork(self, run: RunRecord, *, chunks: bool = False) -> None:
        """Has whichever replicas have its agent look for a run that was made of another; `chunks` as in `answer`."""
        if chunks:
            self._shared.events.asked_presently(run.run_id)
        await self.tell_of_work(run.agent)

    async def tell_of_work(self, agent: str) -> None:
        """Has whichever replicas have an agent look for pending runs of it."""
        self.look(agent)
        if not self._shared.carrier.is_here(agent):
            await self._shared.offers.tell_of_work(agent)

    def look(self, agent: str) -> None:
        """Has this replica look for pending runs, if it has their agent."""
        if self._shared.carrier.is_here(agent):
            self._wake.set()

    async def drain(self) -> None:
        """Takes no new runs, hands its own over at their next step boundary, and ends all watches."""
        self._draining = True
        self._hand_all_over()
        tasks = [task for _, task in self._executions.values()]
        if tasks:
            _, slow = await asyncio.wait(tasks, timeout=self._limits.drain_s)
            while slow:
                for task in slow:
                    task.cancel()
                # One cancellation may be lost, to a wait that is just over (CPython before 3.12).
                _, slow = await asyncio.wait(slow, timeout=CANCEL_AGAIN_S)
        if self._suspect and self._suspect.run_id not in self._executions:
            await attempt("hand_over", self._let_go(self._suspect))
        self._shared.events.close()

    def _room(self) -> int:
        if self._draining or self._clock.off or self._suspect:
            return 0
        if self._lease_age_s > self._limits.lease_s:
            return 0
        return self._limits.max_concurrent_runs - len(self._executions) - sum(self._claims.values())

    @property
    def _lease_age_s(self) -> float:
        return asyncio.get_running_loop().time() - self._renewed_at

    def _held(self) -> list[RunRecord]:
        runs = [execution.run for execution, _ in self._executions.values()]
        return [*runs, self._suspect] if self._suspect else runs

    def _hand_all_over(self) -> None:
        for execution, _ in self._executions.values():
            execution.stop(HANDED_OVER)

    def _start(self, run: RunRecord) -> None:
        if run.run_id in self._executions:
            # It was taken from this replica and has come back; what goes on at the old epoch can write nothing more.
            self._executions[run.run_id][1].cancel()
        execution = Execution(self._shared, run)
        # A run knows its budget, and nothing of the call that began it.
        task = detached(execution.execute(), name=f"run {run.run_id}")
        self._executions[run.run_id] = (execution, task)
        RUNS_ACTIVE.set(len(self._executions))
        self._shared.events.begins(run.run_id)
        task.add_done_callback(lambda ended: self._ended(run.run_id, execution, ended))
        if self._draining:
            execution.stop(HANDED_OVER)

    def _ended(self, run_id: str, execution: Execution, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("an execution broke off", run_id=run_id, error=repr(error))
        was_full = self._room() <= 0
        # A run that was given back may already be here again.
        if run_id in self._executions and self._executions[run_id][0] is execution:
            del self._executions[run_id]
            self._shared.events.leaves(run_id)
        RUNS_ACTIVE.set(len(self._executions))
        if was_full or execution.run.thread_id:
            self._wake.set()
        if execution.waits_s is not None:
            asyncio.get_running_loop().call_later(execution.waits_s, self._wake.set)

    async def _claim_loop(self) -> None:
        """Claims pending runs: at once when there is reason to think that there are some, else now and then."""
        while True:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.sweep_interval_s * SELDOM):
                    await self._wake.wait()
            self._wake.clear()
            if (room := self._room()) > 0:
                await self._attempt("claim", self._claim(room))

    async def _claim(self, room: int) -> None:
        with self._claiming(room) as claim_id:
            claimed = await self._upkeep.claim_pending(room, self._shared.carrier.claimable, claim_id)
            self._behind = len(claimed) == room
            for run in claimed:
                RUNS_STARTED.labels(run.agent, "taken_over" if run.epoch > 1 else "queued").inc()
                if run.chunks_asked:
                    self._shared.events.asked_elsewhere(run.run_id)
                self._start(run)

    async def _sweep_loop(self) -> None:
        for number in itertools.count():
            self._quiet = False
            await self._attempt("sweep", self._sweep())
            if number % SELDOM == 0:
                await self._attempt("count", self._backlog.count())
                await self._attempt("forget_gone", self._upkeep.forget_gone())
            await asyncio.sleep(self._limits.sweep_interval_s * (QUIET if self._quiet else 1))

    async def _sweep(self) -> None:
        if self._clock.off:
            self._hand_all_over()
        if self._lease_age_s > self._limits.lease_s * 2 / 3:
            # The database was away. That it is back is noticed here first, and others go by the lease soon.
            await self._renew_leases()
        due = await self._upkeep.due()
        self._quiet = not any(due)
        if due.pending:
            self._wake.set()
            self._shared.carrier.look_soon()
        orphans = await self._upkeep.take_over() if due.running and self._settled() else Orphans(0, [])
        if orphans.freed:
            RUNS_TAKEN_OVER.inc(len(orphans.freed))
            log.warning("runs of gone replicas are pending again", runs=[run.run_id for run in orphans.freed])
            self._wake.set()
        strays = await self._look_after_own() if due.running else []
        RUNS_ORPHANED.set(orphans.found + len(strays))
        if due.overdue and await self._upkeep.expire_questions():
            self._wake.set()
        suspects = due.suspects or bool(orphans.freed)
        if suspects:
            await self._upkeep.give_up()
        await self._upkeep.add_tokens(self._shared.tokens_spent)
        if suspects or self._suspect:
            await self._run_suspect()

    async def _let_go(self, run: RunRecord | OwnedRun) -> None:
        await self._shared.store.release(run)

    async def _look_after_own(self) -> list[OwnedRun]:
        """Stops what is to be cancelled, and lets go of what this replica has claimed and does not know of.

        It knows what it executes, and which claims it has not had the answer to; a run that appears in neither was
        claimed by a statement whose answer was lost, however long ago.
        """
        strays = []
        for owned in await self._upkeep.owned(self._held()):
            execution = self._executions[owned.run_id][0] if owned.run_id in self._executions else None
            if execution and execution.run.claim_id == owned.claim_id:
                if owned.cancel_requested:
                    execution.stop(CANCELLED)
            elif owned.claim_id not in self._claims and owned.claim_id != (self._suspect and self._suspect.claim_id):
                strays.append(owned)
        for stray in strays:
            log.warning("a claim whose answer was lost is let go of", run_id=stray.run_id, epoch=stray.epoch)
            await self._let_go(stray)
            self._wake.set()
        return strays

    async def _run_suspect(self) -> None:
        """Runs a run that may be what took replicas down by itself, until it has taken a step or is over."""
        if self._suspect is None and self._room() > 0:
            with self._claiming(0) as claim_id:
                self._suspect = await self._upkeep.claim_suspect(self._shared.carrier.claimable, claim_id)
            if self._suspect:
                log.warning("running a run alone", run_id=self._suspect.run_id, idle_claims=self._suspect.idle_claims)
                self._suspect_begun = False
                self._hand_all_over()
                if self._suspect.run_id in self._executions:
                    # It was taken from this replica, which goes on with it all the same.
                    self._executions[self._suspect.run_id][1].cancel()
        suspect = self._suspect
        if suspect is None:
            return
        if not self._suspect_begun:
            if self._executions:
                return
            if await self._upkeep.begin_alone(suspect):
                self._suspect_begun = True
                self._start(suspect)
                return
        elif suspect.run_id in self._executions and not self._executions[suspect.run_id][0].stepped:
            return
        self._suspect = None
        self._wake.set()

    async def _lease_loop(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease_s / 3)
            await self._attempt("renew_leases", self._renew_leases(), limit_s=self._limits.lease_s / 3)

    async def _renew_leases(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        await self._upkeep.renew_leases([run.run_id for run in self._held()])
        self._renewed_at = asked_at

    async def _attempt(self, work: str, doing: Awaitable[None], *, limit_s: float = math.inf) -> None:
        if not await attempt(work, doing, limit_s=min(limit_s, self._limits.round_s)):
            # Each connection that broke or fell silent would fail one round more.
            await attempt("renew_connections", self._upkeep.renew_connections())
