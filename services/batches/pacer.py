"""One batch under way: its items become runs, as many at once as its pace allows, until all have ended."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.batches.answers import verdict_of
from services.batches.claims import BatchClaims, Claim
from services.batches.errors import BatchDatabaseAway
from services.batches.hindrances import ASKS, Hindrance, ItemWay
from services.batches.metrics import BATCHES_PACED, ITEMS_ENDED, PACE, RUNS_HELD, SLOWED, STALLED
from services.batches.pace import Pace
from services.batches.records import BatchState, BegunItem, ItemState
from services.batches.runs import BatchRuns, ItemRefused, NotMade
from services.batches.scores import tell_scores, tell_verdict
from services.kit.identity.batch_tokens import BatchTokenClaims, BatchTokenMinter
from services.kit.identity.signed_tokens import CLOCK_SKEW_S
from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import stop

log = get_logger()
# How soon a batch that is cancelled, or taken over, is noticed.
ROUND_S: Final = 0.5
AWAY_S: Final = 1.0
# How often batches are looked for whose time is over.
DELETING_S: Final = 10.0
_STATES: Final = {
    runs_pb2.RUN_STATE_SUCCEEDED: ItemState.SUCCEEDED,
    runs_pb2.RUN_STATE_FAILED: ItemState.FAILED,
    runs_pb2.RUN_STATE_CANCELLED: ItemState.CANCELLED,
    runs_pb2.RUN_STATE_NEEDS_REVIEW: ItemState.NEEDS_REVIEW,
}


class Pacer:
    """Paces a batch while its claim holds."""

    def __init__(
        self, claim: Claim, claims: BatchClaims, runtime: runs_pb2_grpc.RunServiceAsyncStub, private_pem: str
    ) -> None:
        batch = claim.batch
        self._claim = claim
        self._claims = claims
        tokens = BatchTokenMinter(private_pem, BatchTokenClaims(batch.caller, batch.batch_id))
        self._runs = BatchRuns(runtime, tokens, batch.batch_id)
        self._pace = Pace(batch.max_runs)
        self._held: dict[int, asyncio.Task[None]] = {}
        self._since: dict[int, float] = {}
        self._ways: dict[int, ItemWay] = {}
        self._cancelling = asyncio.Event()
        self._round = asyncio.Event()
        self._held_up_until = 0.0
        self._ended_at = time.monotonic()
        # Whether items may be under way that no task here has in hand: another replica's, those whose begin was not
        # answered, and those whose task failed.
        self._left_alone = True
        self._all_begun = False

    async def run(self) -> None:
        """Paces the batch until every item has ended, or another replica has claimed it."""
        BATCHES_PACED.inc()
        try:
            while await self._goes_on():
                with suppress(TimeoutError):
                    async with asyncio.timeout(ROUND_S):
                        await self._round.wait()
                self._round.clear()
        finally:
            await self._stop()
            BATCHES_PACED.dec()

    async def _goes_on(self) -> bool:
        """Begins what may begin; tells whether anything is left to do for this claim."""
        try:
            self._look_at_quiet()
            state = await self._claims.renew(self._claim, pace=self._pace.limit, held_up_by=self._held_up_by())
            if state is None:
                return False
            if self._left_alone:
                await self._take_in_hand()
            if state is BatchState.CANCELLING:
                self._cancelling.set()
                await self._claims.cancel_pending(self._claim)
            elif self._may_begin() and (room := self._pace.limit - len(self._held)) > 0:
                items = await self._claims.begin(self._claim, room)
                self._all_begun = len(items) < room
                for item in items:
                    self._start(item)
            if self._held or not await self._claims.finish(self._claim):
                return True
            tell_scores(self._claim.batch.batch_id, await self._claims.scores(self._claim))
        except BatchDatabaseAway:
            # Whether the claim still holds, the next write says; what this one did, the next read.
            self._left_alone = True
            return True
        return False

    def _may_begin(self) -> bool:
        return not self._all_begun and time.monotonic() >= self._held_up_until

    async def _take_in_hand(self) -> None:
        """Goes on with the items under way that no task has in hand."""
        held = set(self._held)
        self._left_alone = False
        for item in await self._claims.begun(self._claim):
            if item.number not in held:
                self._start(item)

    def _start(self, item: BegunItem) -> None:
        self._since[item.number] = time.monotonic()
        self._ways[item.number] = ItemWay(self._hindered)
        self._held[item.number] = asyncio.create_task(self._one(item), name=f"item {item.number}")
        RUNS_HELD.inc()

    async def _one(self, item: BegunItem) -> None:
        """Brings an item to its end."""
        try:
            asked = runs_pb2.RunInput.FromString(item.input)
            state, run, error = await self._run_of(item)
            verdict = verdict_of(asked, run)
            while True:
                with suppress(BatchDatabaseAway):
                    ended = await self._claims.end(self._claim, item.number, state, run, error, verdict)
                    break
                await asyncio.sleep(AWAY_S)
            if ended:
                self._ended_at = time.monotonic()
                ITEMS_ENDED.labels(state.value.lower()).inc()
                if run is not None and verdict is not None and item.truth is not None:
                    tell_verdict(
                        item.rule, truth=item.truth, verdict=verdict, run_id=run.run_id, trace_id=run.trace_id,
                        batch_id=self._claim.batch.batch_id,
                    )  # fmt: skip
        except Exception:  # the boundary of a task, whose item is begun again
            log.exception("item failed to end", batch_id=self._claim.batch.batch_id, number=item.number)
            await asyncio.sleep(AWAY_S)
            self._left_alone = True
            return
        finally:
            RUNS_HELD.dec()
            del self._held[item.number], self._ways[item.number]
            since = self._since.pop(item.number)
            self._round.set()
        now = time.monotonic()
        if run is not None and self._pace.ended(now - since, held=len(self._held) + 1, now=now):
            SLOWED.labels("slow").inc()

    async def _run_of(self, item: BegunItem) -> tuple[ItemState, runs_pb2.Run | None, str]:
        way = self._ways[item.number]
        try:
            run_id = item.run_id
            if not run_id:
                run_id = (await self._runs.create(item, self._cancelling, way)).run_id
                with suppress(BatchDatabaseAway):  # it is noted with the end, too
                    await self._claims.note_run(self._claim, item.number, run_id)
            item.input = b""
            stopping = asyncio.create_task(self._stop_when_cancelled(run_id, way))
            try:
                run = await self._runs.end(run_id, way)
            finally:
                stopping.cancel()
        except ItemRefused as refused:
            return ItemState.REFUSED, None, refused.message
        except NotMade:
            return ItemState.CANCELLED, None, ""
        except Exception:  # the boundary of an item: one odd answer is not to cost the batch
            log.exception("item given up", batch_id=self._claim.batch.batch_id, number=item.number)
            return ItemState.REFUSED, None, "the service for batches failed on this item; its log says how"
        # What it was asked is the item's.
        run.ClearField("input")
        return _STATES[run.state], run, ""

    async def _stop_when_cancelled(self, run_id: str, way: ItemWay) -> None:
        await self._cancelling.wait()
        await self._runs.cancel(run_id, way)

    def _hindered(self, hindrance: Hindrance) -> None:
        """Goes slower, and begins nothing before that has passed."""
        now = time.monotonic()
        self._held_up_until = max(self._held_up_until, now + max(hindrance.retry_after_s, ROUND_S))
        if self._pace.refused(now=now):
            SLOWED.labels(hindrance.cause).inc()

    def _held_up_by(self) -> str:
        """Returns what is in the way of the most items; a person's answer, where no other item can go on meanwhile."""
        told = Counter(filter(None, (way.message for way in self._ways.values())))
        is_full = self._all_begun or len(self._held) >= self._pace.limit
        if told[ASKS] < len(self._ways) or not is_full:
            del told[ASKS]
        return max(told, key=told.__getitem__, default="")

    def _look_at_quiet(self) -> None:
        now = time.monotonic()
        if self._since and self._pace.overdue(now - max(min(self._since.values()), self._ended_at), now=now):
            SLOWED.labels("slow").inc()

    async def _stop(self) -> None:
        await stop(*self._held.values())

    @property
    def stalled_s(self) -> float:
        """How long no item has ended, and at most for how long it has been paced here."""
        return time.monotonic() - self._ended_at

    @property
    def pace(self) -> int:
        """Runs at once that the batch holds itself to."""
        return self._pace.limit


class Pacing:
    """The batches that this replica paces."""

    def __init__(
        self, claims: BatchClaims, runtime: runs_pb2_grpc.RunServiceAsyncStub, private_pem: str, *, most: int
    ) -> None:
        self._claims = claims
        self._runtime = runtime
        self._private_pem = private_pem
        self._most = most
        self._pacers: dict[asyncio.Task[None], tuple[Pacer, Claim]] = {}
        self._look = asyncio.Event()
        self._is_off = False
        STALLED.set_function(lambda: max((pacer.stalled_s for pacer, _ in list(self._pacers.values())), default=0.0))
        PACE.set_function(lambda: sum(pacer.pace for pacer, _ in list(self._pacers.values())))

    def look(self) -> None:
        """Says that there is a batch to claim."""
        self._look.set()

    async def run(self) -> None:
        """Claims batches that nobody paces, and deletes those whose time is over, until it is cancelled."""
        deleting = asyncio.create_task(self._delete_expired(), name="expired batches")
        try:
            while True:
                try:
                    await self._round()
                except BatchDatabaseAway as error:
                    log.warning("database away; trying again", error=str(error.__cause__ or error))
                except Exception:  # the boundary of a loop: one that ended would leave a replica that does nothing
                    log.exception("failed to look for batches; trying again")
                with suppress(TimeoutError):
                    async with asyncio.timeout(ROUND_S):
                        await self._look.wait()
                self._look.clear()
        finally:
            await stop(deleting)
            await self._let_go()

    async def _round(self) -> None:
        skew_s = await self._claims.clock_skew_s()
        was_off, self._is_off = self._is_off, abs(skew_s) > CLOCK_SKEW_S
        if self._is_off:
            # Nobody takes the tokens that it mints.
            if not was_off:
                log.error("the clock is off; pacing no batches", skew_s=round(skew_s, 3))
            await self._let_go()
            return
        while await self._has_room() and (claim := await self._claims.claim()):
            log.info("batch claimed", batch_id=claim.batch.batch_id, epoch=claim.batch.epoch)
            pacer = Pacer(claim, self._claims, self._runtime, self._private_pem)
            task = asyncio.create_task(pacer.run(), name=f"batch {claim.batch.batch_id}")
            self._pacers[task] = (pacer, claim)
            task.add_done_callback(self._done)

    async def _has_room(self) -> bool:
        """Tells whether one more batch may be paced; leaves one for it whose caller has more than their share."""
        if len(self._pacers) < self._most:
            return True
        tasks = {claim.batch.batch_id: task for task, (_, claim) in self._pacers.items()}
        crowding = tasks.get(await self._claims.crowding([*tasks]) or "")
        if crowding is None:
            return False
        await self._leave(crowding)
        return True

    async def _delete_expired(self) -> None:
        """Deletes batches whose time is over; that may take long, and nothing else waits for it."""
        while True:
            try:
                deleted = await self._claims.delete_expired()
            except BatchDatabaseAway as error:
                log.warning("database away; expired batches are deleted later", error=str(error.__cause__ or error))
                deleted = 0
            except Exception:  # the boundary of a loop, as in `run`
                log.exception("failed to delete expired batches; trying again")
                deleted = 0
            if not deleted:
                await asyncio.sleep(DELETING_S)

    def _done(self, task: asyncio.Task[None]) -> None:
        _, claim = self._pacers.pop(task, (None, None))
        if claim is None or task.cancelled():
            return
        if error := task.exception():
            # Its lease runs out, and then it is claimed again.
            log.error("batch given up here; another claim goes on", batch_id=claim.batch.batch_id, exc_info=error)

    async def _let_go(self) -> None:
        """Leaves every batch to the other replicas."""
        await self._leave(*self._pacers)

    async def _leave(self, *tasks: asyncio.Task[None]) -> None:
        """Leaves batches to whoever claims them next; their runs go on meanwhile."""
        # One that has ended meanwhile is left already.
        left = [self._pacers.pop(task)[1] for task in tasks if task in self._pacers]
        await stop(*tasks)
        for claim in left:
            with suppress(BatchDatabaseAway):
                await self._claims.let_go(claim)
