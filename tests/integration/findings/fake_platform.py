"""A RunService that drops streams, fails now and then, and remembers every run it was asked for."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
from grpc_status import rpc_status
from signalbox.v1 import agents_pb2, agents_pb2_grpc, caller_pb2, runs_pb2, runs_pb2_grpc, sast_pb2

from services.gateway.quota import Quotas
from services.kit.errors import InvalidRequest, SignalboxError, to_status

Context = grpc.aio.ServicerContext[Any, Any]
Ending = Callable[[sast_pb2.Finding, int], runs_pb2.Run]


class Overloaded(SignalboxError):
    """Try again."""

    reason = "OVERLOADED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    retryable = True


class Forbidden(SignalboxError):
    """Never."""

    reason = "FORBIDDEN"
    code = grpc.StatusCode.PERMISSION_DENIED


def finding_of(run_input: runs_pb2.RunInput) -> sast_pb2.Finding:
    """The finding that a run is about."""
    if run_input.WhichOneof("agent") == "sast_triage":
        return run_input.sast_triage.finding
    return run_input.sast_investigation.finding


def verdict_for(finding: sast_pb2.Finding) -> sast_pb2.Verdict:
    """The verdict that a finding gets: by its line, so that a test can tell whose it is."""
    verdicts = (sast_pb2.VERDICT_TRUE_POSITIVE, sast_pb2.VERDICT_FALSE_POSITIVE, sast_pb2.VERDICT_NEEDS_REVIEW)
    return verdicts[finding.location.first_line % 3]


def succeed(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:  # noqa: ARG001 - an Ending
    """A run that ends with a verdict, and says in its words which finding it is about."""
    evidence = sast_pb2.Evidence(
        claim="It is so.",
        file=finding.location.file,
        first_line=finding.location.first_line,
        last_line=finding.location.first_line,
        commit="0" * 40,
    )
    output = sast_pb2.SastInvestigationOutput(
        verdict=verdict_for(finding),
        confidence=0.8,
        confidence_calibrated=True,
        justification=finding.fingerprint,
        evidence=[evidence],
        token_usage=caller_pb2.TokenUsage(input_tokens=10, output_tokens=2, total_tokens=12),
        iterations=1,
    )
    return runs_pb2.Run(state=runs_pb2.RUN_STATE_SUCCEEDED, output=runs_pb2.RunOutput(sast_investigation=output))


def succeed_unmeasured(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
    """A run like the others, by a runtime that gives the confidence of any model, as an earlier release does."""
    run = succeed(finding, attempt)
    run.output.sast_investigation.ClearField("confidence_calibrated")
    return run


def succeed_by_rules(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
    """A run like the others, whose models were the offline model."""
    run = succeed(finding, attempt)
    run.output.sast_investigation.offline_model_calls = 3
    return run


class FakePlatform(runs_pb2_grpc.RunServiceServicer):
    """Runs end by `ending` of (finding, how many runs it had before), once `gate` is set.

    trouble: the share of calls that fail, and of streams that are cut after an event.
    """

    def __init__(self, *, trouble: float = 0.0, seed: int = 1) -> None:
        self.ending: Ending = succeed
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuse: SignalboxError | None = None
        self.refuse_rule = ""
        self.graph_version = ""
        self.quota: Quotas | None = None
        self.refused = 0
        self.runs: dict[str, runs_pb2.Run] = {}
        self.by_request: dict[str, str] = {}
        self.started: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.traceparents: set[Any] = set()
        self.most_at_once = 0
        self._attempts: dict[str, int] = {}
        self._watching = 0
        self._counted = asyncio.Condition()
        self._trouble = trouble
        self._random = random.Random(seed)  # noqa: S311 - a fixed course of trouble

    async def wait_for_watchers(self, count: int) -> None:
        """Waits until so many streams are open at once; raises TimeoutError."""
        async with asyncio.timeout(60), self._counted:
            await self._counted.wait_for(lambda: self._watching >= count)

    async def _count(self, change: int) -> None:
        async with self._counted:
            self._watching += change
            self.most_at_once = max(self.most_at_once, self._watching)
            self._counted.notify_all()

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        finding = finding_of(request.input)
        self.traceparents.add(dict(context.invocation_metadata() or ()).get("traceparent"))
        await self._keep_to_quota(context)
        await self._maybe_fail(context, finding)
        if request.request_id not in self.by_request:
            run_id = f"00000000-0000-7000-8000-{len(self.runs):012d}"
            self._attempts[run_id] = self.started[finding.fingerprint]
            self.started[finding.fingerprint] += 1
            self.by_request[request.request_id] = run_id
            self.runs[run_id] = runs_pb2.Run(
                run_id=run_id,
                state=runs_pb2.RUN_STATE_PENDING,
                input=request.input,
                correlation_id=request.correlation_id,
            )
        run = runs_pb2.Run()
        run.CopyFrom(self.runs[self.by_request[request.request_id]])
        # The answer may get lost after the run was made.
        await self._maybe_fail(context, finding)
        return runs_pb2.CreateRunResponse(run=run)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        await self._keep_to_quota(context)
        await self._count(1)
        try:
            async for event in self._events(request, context):
                yield runs_pb2.WatchRunResponse(event=event)
        finally:
            await self._count(-1)

    async def _events(self, request: runs_pb2.WatchRunRequest, context: Context) -> AsyncIterator[runs_pb2.RunEvent]:
        run = self.runs[request.run_id]
        await self._maybe_fail(context, finding_of(run.input))
        for sequence in (1, 2):
            if sequence > request.after_sequence:
                node = runs_pb2.NodeCompleted(node="research")
                yield runs_pb2.RunEvent(sequence=sequence, run_id=run.run_id, node_completed=node)
                if self._random.random() < self._trouble:
                    return
                await self._maybe_fail(context, finding_of(run.input))
        await self.gate.wait()
        if run.state == runs_pb2.RUN_STATE_PENDING:
            run.MergeFrom(self.ending(finding_of(run.input), self._attempts[run.run_id]))
        yield runs_pb2.RunEvent(sequence=3, run_id=run.run_id, run_ended=runs_pb2.RunEnded(run=run))

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:  # noqa: ARG002 - gRPC's signature
        run = self.runs[request.run_id]
        run.state = runs_pb2.RUN_STATE_CANCELLED
        self.cancelled.add(request.run_id)
        return runs_pb2.CancelRunResponse(run=run)

    async def ExecuteRun(
        self, request: runs_pb2.ExecuteRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        yield await self._not_here(request, context)

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        return await self._not_here(request, context)

    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        return await self._not_here(request, context)

    async def ResumeRun(self, request: runs_pb2.ResumeRunRequest, context: Context) -> runs_pb2.ResumeRunResponse:
        return await self._not_here(request, context)

    async def ListDecisions(
        self, request: runs_pb2.ListDecisionsRequest, context: Context
    ) -> runs_pb2.ListDecisionsResponse:
        return await self._not_here(request, context)

    async def CountDecisions(
        self, request: runs_pb2.CountDecisionsRequest, context: Context
    ) -> runs_pb2.CountDecisionsResponse:
        return await self._not_here(request, context)

    async def CountRuns(self, request: runs_pb2.CountRunsRequest, context: Context) -> runs_pb2.CountRunsResponse:
        return await self._not_here(request, context)

    async def ExplainRun(self, request: runs_pb2.ExplainRunRequest, context: Context) -> runs_pb2.ExplainRunResponse:
        return await self._not_here(request, context)

    async def ListRecordedAnswers(
        self, request: runs_pb2.ListRecordedAnswersRequest, context: Context
    ) -> runs_pb2.ListRecordedAnswersResponse:
        return await self._not_here(request, context)

    async def _not_here(self, request: Any, context: Context) -> NoReturn:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"a batch needs no {type(request).__name__}")
        raise AssertionError("abort returned")

    async def _keep_to_quota(self, context: Context) -> None:
        try:
            if self.quota is not None:
                self.quota.spend_request("27")
        except SignalboxError as error:
            self.refused += 1
            await context.abort_with_status(rpc_status.to_status(to_status(error)))

    async def _maybe_fail(self, context: Context, finding: sast_pb2.Finding) -> None:
        if self.refuse is not None and self.refuse_rule in ("", finding.rule_id):
            await context.abort_with_status(rpc_status.to_status(to_status(self.refuse)))
        roll = self._random.random()
        if roll < self._trouble / 4:
            await context.abort_with_status(rpc_status.to_status(to_status(Overloaded("busy", retry_after_s=0.01))))
        if roll < self._trouble / 2:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        if roll < self._trouble * 3 / 4:
            await context.abort(grpc.StatusCode.INTERNAL, "RST_STREAM")


def bad_request() -> SignalboxError:
    """What the gateway says of a finding that breaks the proto's rules."""
    return InvalidRequest("input.finding: too long")


class FakeAgents(agents_pb2_grpc.AgentServiceServicer):
    """Says which graph of `sast_investigation` a platform offers."""

    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform

    async def ListAgents(
        self,
        request: agents_pb2.ListAgentsRequest,  # noqa: ARG002 - the servicer's signature
        context: Context,  # noqa: ARG002 - the servicer's signature
    ) -> agents_pb2.ListAgentsResponse:
        offered = agents_pb2.Agent(name="sast_investigation", graph_version=self._platform.graph_version)
        return agents_pb2.ListAgentsResponse(agents=[offered])
