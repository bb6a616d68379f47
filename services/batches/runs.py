"""The runs of a batch, as the runtime has them; calls go on until they are answered, whoever is away meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import grpc
from signalbox.v1 import batches_pb2, runs_pb2, runs_pb2_grpc

from services.batches.hindrances import Hindrance, ItemWay
from services.batches.records import BegunItem
from services.kit.errors import ErrorDetail, error_detail
from services.kit.identity.batch_tokens import BatchTokenMinter
from services.kit.identity.bearer import bearer_metadata
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import LABEL_BATCH
from services.kit.wire.event_kinds import ENDED_RUN_STATES, RUN_ENDED, STATE_CHANGED

log = get_logger()
T = TypeVar("T")
CALL_TIMEOUT_S: Final = 30.0
# A stream says by itself when its run ends; one that says nothing for so long is asked for anew.
WATCH_TIMEOUT_S: Final = 600.0
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 10.0
# Somebody may raise a quota that would be there again in an hour.
LONGEST_TOLD_S: Final = 60.0
# How often a run is looked at that awaits a person's input, which may take days.
AWAITED_S: Final = 2.0
# What says no to this input, however often it is asked.
_NO: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
# What says nothing of the platform, so that it is no reason for other items to wait; after so many of them without
# another answer an item is refused. As many more calls are made for what nobody wants any longer.
_OWN: Final = frozenset(
    {
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
TRIES: Final = 8


class ItemRefused(Exception):
    """The platform says no to an item, for good; `message` is for the batch's caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotMade(Exception):
    """The platform has not said that it made a run, and nobody waits for it any longer."""


class BatchRuns:
    """Makes, follows and cancels the runs of one batch, by its token; the way of each is told what is in it."""

    def __init__(self, runtime: runs_pb2_grpc.RunServiceAsyncStub, tokens: BatchTokenMinter, batch_id: str) -> None:
        self._runtime = runtime
        self._tokens = tokens
        self._batch_id = batch_id

    async def create(self, item: BegunItem, unwanted: asyncio.Event, way: ItemWay) -> runs_pb2.Run:
        """Returns the run of an item, which is made once, however often this is asked.

        Raises ItemRefused; NotMade once it is `unwanted`: at once when a quota is in the way, which a repeat of a
        request breaks none of, so that there is no such run; else after some tries.
        """
        request = runs_pb2.CreateRunRequest(
            input=_input_of(item),
            request_id=f"batch-{self._batch_id}-{item.number}-{item.retry_count}",
            correlation_id=f"batch-{self._batch_id}",
            labels={**_labels_of(item), LABEL_BATCH: self._batch_id},
        )

        async def call() -> runs_pb2.Run:
            response = await self._runtime.CreateRun(request, metadata=self._metadata(), timeout=CALL_TIMEOUT_S)
            return response.run

        run = await self._answered(call, way, unwanted)
        way.clear()
        return run

    async def end(self, run_id: str, way: ItemWay) -> runs_pb2.Run:
        """Returns a run once it has ended, with its output. Raises ItemRefused where it is gone."""
        sequence, failed = 0, False

        async def follow() -> runs_pb2.Run | None:
            nonlocal sequence, failed
            if failed:
                # A stream says what is new: that there is an answer again, and how the run goes, is asked for.
                _tell_state(await self._get(run_id), way)
            failed = True
            request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=sequence)
            stream = self._runtime.WatchRun(request, metadata=self._metadata(), timeout=WATCH_TIMEOUT_S)
            try:
                async for response in stream:
                    event = response.event
                    sequence = max(sequence, event.sequence)
                    if event.HasField(RUN_ENDED):
                        return event.run_ended.run
                    _tell_event(event, way)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
            finally:
                stream.cancel()
            failed = False
            return None

        while True:
            ended = await self._answered(follow, way)
            if ended is not None:
                return ended
            run = await self._answered(lambda: self._get(run_id), way)
            if run.state in ENDED_RUN_STATES:
                return run
            _tell_state(run, way)
            await asyncio.sleep(AWAITED_S)

    async def cancel(self, run_id: str, way: ItemWay) -> None:
        """Asks a run to stop; one that has ended stays as it is."""
        request = runs_pb2.CancelRunRequest(run_id=run_id)

        async def call() -> None:
            await self._runtime.CancelRun(request, metadata=self._metadata(), timeout=CALL_TIMEOUT_S)

        try:
            await self._answered(call, way)
            way.tried()
        except ItemRefused as refused:
            log.info("a run of a cancelled batch is not to be stopped", run_id=run_id, error=refused.message)

    async def _get(self, run_id: str) -> runs_pb2.Run:
        request = runs_pb2.GetRunRequest(run_id=run_id)
        response = await self._runtime.GetRun(request, metadata=self._metadata(), timeout=CALL_TIMEOUT_S)
        return response.run

    async def _answered(
        self, call: Callable[[], Awaitable[T]], way: ItemWay, unwanted: asyncio.Event | None = None
    ) -> T:
        """Calls until there is an answer, or none is to be had. Raises ItemRefused; NotMade once it is `unwanted`."""
        unwanted = unwanted or asyncio.Event()
        failures = own = late = 0
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                detail = error_detail(error)
                if detail.code in _NO and not detail.retryable:
                    raise ItemRefused(_TOLD.get(detail.reason) or detail.message or detail.code.name) from error
                failures += 1
                own = own + 1 if _is_own(detail) else 0
                if own == TRIES:
                    raise ItemRefused(f"{detail.reason}: {detail.message}") from error
                late += unwanted.is_set()
                if late == TRIES or (late and detail.reason in _QUOTAS):
                    raise NotMade from error
                hindrance = _hindrance(detail, failures)
                if not own:
                    way.blocked(hindrance)
            if late:
                await asyncio.sleep(min(hindrance.retry_after_s, LONGEST_PAUSE_S))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(hindrance.retry_after_s):
                    await unwanted.wait()

    def _metadata(self) -> tuple[tuple[str, str]]:
        return (bearer_metadata(self._tokens.mint()),)


# Reasons of the runtime by which a caller's quota is used up.
_QUOTAS: Final = frozenset(
    {"TOO_MANY_RUNS_AT_ONCE", "TOO_MANY_RUNS_STARTED", "TOO_MANY_TOKENS", "TOO_MANY_RUNS_WAITING", "RUN_QUOTA_EXCEEDED"}
)
# What the runtime tells a batch's token, in words for the batch's caller.
_TOLD: Final = {
    "BATCH_RUNS_ONLY": "what the item names, an incident for example, has a run already, outside of this batch",
    "RUN_NOT_FOUND": "its run was removed, by retention for example, before its end was noted; a retry runs it again",
}


def _input_of(item: BegunItem) -> runs_pb2.RunInput:
    """Returns what an item asks; of an agent that makes one run of a name, again where the item is run again."""
    given = runs_pb2.RunInput.FromString(item.input)
    if item.retry_count and given.HasField("incident_investigation"):
        given.incident_investigation.again = True
    return given


def _labels_of(item: BegunItem) -> dict[str, str]:
    return dict(batches_pb2.NewBatchItem.FromString(item.given).labels)


def _tell_event(event: runs_pb2.RunEvent, way: ItemWay) -> None:
    """Says what an event of a run means for it: that its state changed tells by what, and all else that it goes on."""
    if not event.HasField(STATE_CHANGED):
        way.clear()
        return
    changed = event.state_changed
    _tell(changed.state, _away(changed.waiting_for, changed.cause), way)


def _tell_state(run: runs_pb2.Run, way: ItemWay) -> None:
    _tell(run.state, _away(run.waiting_for), way)


def _tell(state: runs_pb2.RunState, away: str, way: ItemWay) -> None:
    if away:
        way.blocked(Hindrance("away", away, 0.0))
    elif state == runs_pb2.RUN_STATE_AWAITING_INPUT:
        way.asks()
    else:
        way.tried()


def _away(dependency: str, cause: str = "") -> str:
    if not dependency:
        return ""
    return f"{dependency} is away ({cause})" if cause else f"{dependency} is away"


def _is_own(detail: ErrorDetail) -> bool:
    """Whether a failure is a call's own: not of the platform, nor of what its caller may have."""
    if detail.reason == "AGENT_UNKNOWN":
        return True
    return detail.code in _OWN and detail.reason not in _QUOTAS | {"OVERLOADED"}


def _hindrance(detail: ErrorDetail, failures: int) -> Hindrance:
    """Returns what is in the way, and for how long: as is told, up to a bound, and not for all that wait the same."""
    longest = min(FIRST_PAUSE_S * 2.0 ** min(failures, 16), LONGEST_PAUSE_S)
    pause_s = min(detail.retry_after_s or 0.0, LONGEST_TOLD_S) + random.uniform(longest / 2, longest)  # noqa: S311 - spreads load
    cause = "refused" if detail.code is grpc.StatusCode.RESOURCE_EXHAUSTED else "away"
    return Hindrance(cause, f"{detail.reason}: {detail.message}", pause_s)
