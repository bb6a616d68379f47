"""A runtime whose runs end by themselves, and that refuses or goes away as a test tells it."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import grpc
from signalbox.v1 import data_chat_pb2, outcome_pb2, runs_pb2, runs_pb2_grpc, sast_pb2

from services.kit.errors import InvalidRequest, SignalboxError
from services.kit.identity.batch_tokens import BatchTokenVerifier
from services.kit.identity.bearer import bearer_token

Context = grpc.aio.ServicerContext[Any, Any]
# What a run takes.
RUN_S = 0.005
_OUTCOMES = {
    sast_pb2.VERDICT_TRUE_POSITIVE: outcome_pb2.OUTCOME_TRUE_POSITIVE,
    sast_pb2.VERDICT_FALSE_POSITIVE: outcome_pb2.OUTCOME_FALSE_POSITIVE,
    sast_pb2.VERDICT_NEEDS_REVIEW: outcome_pb2.OUTCOME_NO_VERDICT,
}


class QuotaUsedUp(SignalboxError):
    """As the runtime refuses a caller's next run."""

    reason = "TOO_MANY_RUNS_AT_ONCE"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class Away(SignalboxError):
    """As a replica answers that can't reach its database."""

    reason = "DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class Odd(SignalboxError):
    """As the runtime answers what it did not foresee."""


class NotOfTheBatch(SignalboxError):
    """As the runtime answers where the incident has a run of another batch, or of none."""

    reason = "BATCH_RUNS_ONLY"
    code = grpc.StatusCode.PERMISSION_DENIED


class Gone(SignalboxError):
    """As the runtime answers for a run that retention has removed."""

    reason = "RUN_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class FakeRuntime(runs_pb2_grpc.RunServiceServicer):
    """Runs are known by their request ids, as those of the runtime are; a question `no` is refused."""

    def __init__(self, public_pem: str) -> None:
        self._verifier = BatchTokenVerifier(public_pem)
        self._by_request: dict[str, runs_pb2.Run] = {}
        self.runs: dict[str, runs_pb2.Run] = {}
        self.asked: Counter[str] = Counter()
        self.active: set[str] = set()
        self.most_active = 0
        # What answers the next creations, before any run is made.
        self.failures: list[SignalboxError] = []
        # What answers every creation for a question.
        self.failing: dict[str, SignalboxError] = {}
        # What comes of findings, by fingerprint.
        self.verdicts: dict[str, sast_pb2.Verdict] = {}
        # What runs say that they wait for before they end.
        self.waits_for = ""
        # Whether those runs are tried again then, and say nothing more.
        self.tries_again = asyncio.Event()
        # Questions whose runs ask something themselves, and are never answered.
        self.asking: set[str] = set()
        # Whether a run is not to be followed now.
        self.cuts = False
        # Whether runs end by themselves; else they do when they are cancelled.
        self.ends = True
        self._over: dict[str, asyncio.Event] = {}

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        """Finds the run of a request id, or makes one."""
        claims = self._verifier.verify(bearer_token(context.invocation_metadata()))
        assert request.labels["batch"] == claims.batch_id
        self.asked[request.request_id] += 1
        if found := self._by_request.get(request.request_id):
            assert found.input == request.input
            return runs_pb2.CreateRunResponse(run=found)
        if self.failures:
            raise self.failures.pop(0)
        question = request.input.data_chat.question
        if question in self.failing:
            raise self.failing[question]
        if question == "no":
            raise InvalidRequest("no such question is answered")
        run = runs_pb2.Run(
            run_id=str(uuid4()), agent="data_chat", input=request.input, state=runs_pb2.RUN_STATE_RUNNING,
            labels=request.labels, trace_id=uuid4().hex,
        )  # fmt: skip
        self._by_request[request.request_id] = self.runs[run.run_id] = run
        self.active.add(run.run_id)
        self._over[run.run_id] = asyncio.Event()
        self.most_active = max(self.most_active, len(self.active))
        return runs_pb2.CreateRunResponse(run=run)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Says that a run has ended, once it has."""
        self._verifier.verify(bearer_token(context.invocation_metadata()))
        if (run := self.runs.get(request.run_id)) is None:
            raise Gone("there is no such run")
        if self.cuts:
            raise Away("the replica is going away")
        if self.waits_for:
            waiting = runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_PENDING, waiting_for=self.waits_for)
            yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(run_id=run.run_id, state_changed=waiting))
            await self.tries_again.wait()
            tried = runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING)
            yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(run_id=run.run_id, state_changed=tried))
        if run.input.data_chat.question in self.asking:
            run.state = runs_pb2.RUN_STATE_AWAITING_INPUT
            asks = runs_pb2.StateChanged(state=run.state)
            yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(run_id=run.run_id, state_changed=asks))
            return
        await asyncio.sleep(RUN_S)
        if self.ends:
            self.end(run, runs_pb2.RUN_STATE_SUCCEEDED)
        await self._over[run.run_id].wait()
        ended = runs_pb2.RunEnded(run=run)
        yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(sequence=1, run_id=run.run_id, run_ended=ended))

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        """Returns a run."""
        del context
        return runs_pb2.GetRunResponse(run=self.runs[request.run_id])

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:
        """Ends a run that has not."""
        del context
        run = self.runs[request.run_id]
        self.end(run, runs_pb2.RUN_STATE_CANCELLED)
        return runs_pb2.CancelRunResponse(run=run)

    def end(self, run: runs_pb2.Run, state: runs_pb2.RunState = runs_pb2.RUN_STATE_SUCCEEDED) -> None:
        """Ends a run that has not."""
        if run.run_id not in self.active:
            return
        self.active.discard(run.run_id)
        self._over[run.run_id].set()
        run.state = state
        if state == runs_pb2.RUN_STATE_SUCCEEDED and run.input.HasField("sast_investigation"):
            verdict = self.verdicts.get(run.input.sast_investigation.finding.fingerprint, sast_pb2.VERDICT_NEEDS_REVIEW)
            run.outcome = _OUTCOMES[verdict]
            run.output.sast_investigation.verdict = verdict
        elif state == runs_pb2.RUN_STATE_SUCCEEDED:
            run.outcome = outcome_pb2.OUTCOME_ANSWERED
            run.output.data_chat.CopyFrom(data_chat_pb2.DataChatOutput(answer=f"on {run.input.data_chat.question}"))
