"""Many findings through the platform: each its own run, a bounded number at once, each result exactly once.

What runs is asked for by a request id made of the repository, the commit and the finding. So the same command, given
again, finds the runs that there are, follows those under way, and starts only what is missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from uuid import uuid4

import grpc
from signalbox.v1 import runs_pb2, sast_pb2

from services.findings.errors import CallFailed, StreamEnded
from services.findings.investigation.outcomes import outcome_of, refused
from services.findings.investigation.pause import Pause
from services.findings.sarif.outcome import Outcome
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, RUN_ENDED, STATE_CHANGED

MAX_ATTEMPTS = 100
MAX_LABEL = 63
_ENDED = frozenset(
    {
        runs_pb2.RUN_STATE_SUCCEEDED,
        runs_pb2.RUN_STATE_FAILED,
        runs_pb2.RUN_STATE_CANCELLED,
        runs_pb2.RUN_STATE_NEEDS_REVIEW,
    }
)
# A stream that a proxy or a dying server cut can end with any of these.
_CUT = frozenset({grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED})
# What is wrong with one finding and not with the whole batch.
_ONE_FINDING = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OUT_OF_RANGE})


MakeInput = Callable[[sast_pb2.Finding, sast_pb2.CodeSource], runs_pb2.RunInput]
Call = Callable[[], Awaitable[runs_pb2.Run]]


class Gateway(Protocol):
    """What a batch needs of a platform. Every method raises CallFailed."""

    async def create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run: ...

    def watch(
        self, run_id: str, after_sequence: int, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]: ...

    async def cancel(self, run_id: str) -> runs_pb2.Run: ...


class BatchProgress(Protocol):
    """Is told how a batch goes."""

    def started(self, finding: sast_pb2.Finding) -> None: ...

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None: ...

    def say(self, message: str) -> None: ...


@dataclass(frozen=True)
class BatchPolicy:
    """How a batch is run. A call is tried again after backoff until so many failed in a row without news of its run."""

    concurrency: int = 8
    rerun_failed: bool = False
    label: str = ""
    max_failures: int = 10
    first_backoff_s: float = 0.2
    max_backoff_s: float = 10.0
    cancel_timeout_s: float = 10.0


class Batch:
    """Runs findings of one source."""

    def __init__(
        self,
        gateway: Gateway,
        source: sast_pb2.CodeSource,
        policy: BatchPolicy,
        progress: BatchProgress,
        make_input: MakeInput,
    ) -> None:
        self._gateway = gateway
        self._source = source
        self._policy = policy
        self._progress = progress
        self._make_input = make_input
        # A run that is found by its request id has the correlation id of the command that made it.
        self._correlation_id = str(uuid4())
        self._active: set[str] = set()
        self._pause = Pause(progress.say)
        self._creating: set[asyncio.Task[runs_pb2.Run]] = set()

    async def run(self, findings: Sequence[sast_pb2.Finding]) -> dict[str, Outcome]:
        """Returns the outcome of each finding by fingerprint.

        Raises CallFailed when the platform is gone or refuses the caller; its runs go on, as they do when it is
        cancelled, until `cancel_active`.
        """
        outcomes: dict[str, Outcome] = {}
        waiting = iter(findings)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._policy.concurrency, len(findings))):
                    group.create_task(self._work(waiting, outcomes))
        except BaseExceptionGroup as errors:
            for creating in self._creating:
                creating.cancel()
            first = _first(errors.exceptions)
            raise first from first.__cause__
        return outcomes

    async def _work(self, waiting: Iterable[sast_pb2.Finding], outcomes: dict[str, Outcome]) -> None:
        for finding in waiting:
            # What the platform waits for would keep one more run waiting, and use up its time.
            await self._pause.over()
            self._progress.started(finding)
            outcome = await self._one(finding)
            outcomes[finding.fingerprint] = outcome
            self._progress.done(finding, outcome)

    async def cancel_active(self) -> int:
        """Cancels the runs under way that this batch made, and returns how many.

        Those that the platform does not stop in time go on, and so do those of another command that it followed.
        """
        async with asyncio.timeout(self._policy.cancel_timeout_s):
            created = await asyncio.gather(*self._creating, return_exceptions=True)
            self._active |= {run.run_id for run in created if isinstance(run, runs_pb2.Run) and self._made(run)}
            stopped = await asyncio.gather(*map(self._gateway.cancel, self._active), return_exceptions=True)
        return sum(isinstance(run, runs_pb2.Run) for run in stopped)

    async def _one(self, finding: sast_pb2.Finding) -> Outcome:
        for attempt in range(MAX_ATTEMPTS):
            try:
                run = await self._retrying(partial(self._create, finding, attempt))
            except CallFailed as error:
                if _code(error) not in _ONE_FINDING:
                    raise
                return refused(finding.fingerprint, error.message)
            if run.state in _ENDED:
                # It ended before it was asked for: it is one of an earlier command.
                if self._counts_as_missing(run):
                    continue
                return outcome_of(finding.fingerprint, run)
            outcome = await self._follow(finding.fingerprint, run)
            if outcome is not None:
                return outcome
        return refused(finding.fingerprint, f"the finding failed {MAX_ATTEMPTS} times")

    def _counts_as_missing(self, run: runs_pb2.Run) -> bool:
        if run.state == runs_pb2.RUN_STATE_CANCELLED:
            return True
        return run.state == runs_pb2.RUN_STATE_FAILED and self._policy.rerun_failed

    def _made(self, run: runs_pb2.Run) -> bool:
        """Whether this batch made a run, and did not find it."""
        return run.correlation_id == self._correlation_id

    async def _create(self, finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
        asked = self._make_input(finding, self._source)
        # What one agent made of a finding is not an answer to what another is asked.
        label = f"{asked.WhichOneof('agent')} {self._policy.label}"
        request = runs_pb2.CreateRunRequest(
            input=asked,
            request_id=request_id(self._source, finding, label=label, attempt=attempt),
            correlation_id=self._correlation_id,
            labels={
                "batch": label_value(self._policy.label or self._source.commit[:12]),
                "rule": label_value(finding.rule_id),
            },
        )
        creating = asyncio.ensure_future(self._gateway.create(request))
        self._creating.add(creating)
        creating.add_done_callback(_heard)
        try:
            # Cancelled half-way, it would leave a run behind whose id nobody knows.
            run = await asyncio.shield(creating)
        except CallFailed:
            self._creating.discard(creating)
            raise
        self._creating.discard(creating)
        return run

    async def _follow(self, fingerprint: str, run: runs_pb2.Run) -> Outcome | None:
        """Returns what comes of a run; None where another command made it, and it was cancelled with that."""
        if self._made(run):
            self._active.add(run.run_id)
        seen = _Cursor()
        try:
            ended = await self._retrying(lambda: self._watch(run.run_id, seen), seen)
            self._pause.goes_on(run.run_id)
        except CallFailed as error:
            if _code(error) not in _ONE_FINDING:
                raise
            self._active.discard(run.run_id)
            self._pause.goes_on(run.run_id)
            return refused(fingerprint, error.message, run.run_id)
        self._active.discard(run.run_id)
        if ended.state == runs_pb2.RUN_STATE_CANCELLED and not self._made(run):
            return None
        return outcome_of(fingerprint, ended)

    async def _watch(self, run_id: str, seen: _Cursor) -> runs_pb2.Run:
        async for event in self._gateway.watch(run_id, seen.sequence, timeout_s=None):
            seen.sequence = max(seen.sequence, event.sequence)
            kind = event.WhichOneof("event")
            if kind == RUN_ENDED:
                return event.run_ended.run
            if kind == STATE_CHANGED and event.state_changed.waiting_for:
                self._pause.waits(run_id, event.state_changed.waiting_for)
            elif kind in (DECISION, NODE_COMPLETED):
                self._pause.goes_on(run_id)
            if kind == STATE_CHANGED and event.state_changed.state == runs_pb2.RUN_STATE_AWAITING_INPUT:
                break
        raise StreamEnded(run_id)

    async def _retrying(self, call: Call, seen: _Cursor | None = None) -> runs_pb2.Run:
        """Calls until it works; news of the run in between makes the count of failures start again."""
        failures, known = 0, seen.sequence if seen else 0
        while True:
            try:
                return await call()
            except CallFailed as error:
                if seen and seen.sequence > known:
                    failures, known = 0, seen.sequence
                failures += 1
                if failures >= self._policy.max_failures or not _may_work_later(error):
                    raise
                await asyncio.sleep(self._backoff_s(error, failures))

    def _backoff_s(self, error: CallFailed, failures: int) -> float:
        told = error.detail.retry_after_s if error.detail else None
        longest = min(self._policy.first_backoff_s * 2.0**failures, self._policy.max_backoff_s)
        # What is told is when the next call fits, and all that wait are told the same: they must not come back at once.
        return (told or 0.0) + random.uniform(longest / 2, longest)  # noqa: S311 - spreads load


@dataclass
class _Cursor:
    """The last event of a run that was seen."""

    sequence: int = 0


def label_value(text: str) -> str:
    """Returns a text as the value of a label: letters, digits and `-_.`, and no more than one has."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:MAX_LABEL].strip("-_.")


def request_id(source: sast_pb2.CodeSource, finding: sast_pb2.Finding, *, label: str, attempt: int) -> str:
    """Returns the id under which a finding's run is asked for, the same each time."""
    digest = hashlib.sha256()
    for part in (source.repository, source.commit, label):
        digest.update(part.encode() + b"\0")
    content = sast_pb2.Finding()
    content.CopyFrom(finding)
    # Whoever looks at its snippet, it is the same finding.
    content.ClearField("check_snippet")
    digest.update(content.SerializeToString(deterministic=True))
    return f"sast-{digest.hexdigest()[:48]}-{attempt}"


def _heard(creating: asyncio.Task[runs_pb2.Run]) -> None:
    """Takes note of a failure that nobody waits for any more, so that asyncio does not complain of it."""
    if not creating.cancelled():
        creating.exception()


def _may_work_later(error: CallFailed) -> bool:
    if isinstance(error, StreamEnded):
        return True
    return error.detail is not None and (error.detail.retryable or error.detail.code in _CUT)


def _code(error: CallFailed) -> grpc.StatusCode | None:
    return error.detail.code if error.detail else None


def _first(errors: Sequence[BaseException]) -> BaseException:
    """Returns one of the errors of a group, the groups in it unpacked."""
    found: BaseException = errors[0]
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    if isinstance(found, CallFailed):
        found.hint = f"{found.hint}; run again, the same command continues where it stopped"
    return found
