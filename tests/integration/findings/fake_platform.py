"""A RunService and a BatchService that end runs as a test tells them, and remember every run they were asked for."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn
from uuid import uuid4

import grpc
from signalbox.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    batches_pb2,
    batches_pb2_grpc,
    caller_pb2,
    runs_pb2,
    runs_pb2_grpc,
    sast_pb2,
)

Context = grpc.aio.ServicerContext[Any, Any]
Ending = Callable[[sast_pb2.Finding, int], runs_pb2.Run]


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
    """Runs end by `ending` of (finding, how many runs it had before), once `gate` is set."""

    def __init__(self) -> None:
        self.ending: Ending = succeed
        self.gate = asyncio.Event()
        self.gate.set()
        self.graph_version = ""
        self.runs: dict[str, runs_pb2.Run] = {}
        self.by_request: dict[str, str] = {}
        self.started: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self._attempts: dict[str, int] = {}

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        return await self._not_here(request, context)

    def run_of(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Finds the run of a request id, or makes one."""
        finding = finding_of(request.input)
        if request.request_id not in self.by_request:
            run_id = f"00000000-0000-7000-8000-{len(self.runs):012d}"
            self._attempts[run_id] = self.started[finding.fingerprint]
            self.started[finding.fingerprint] += 1
            self.by_request[request.request_id] = run_id
            self.runs[run_id] = runs_pb2.Run(
                run_id=run_id, state=runs_pb2.RUN_STATE_PENDING, input=request.input, labels=request.labels
            )
        return self.runs[self.by_request[request.request_id]]

    async def ended(self, run: runs_pb2.Run) -> runs_pb2.Run:
        """Returns a run as it ends, once the gate is open."""
        await self.gate.wait()
        if run.state == runs_pb2.RUN_STATE_PENDING:
            run.MergeFrom(self.ending(finding_of(run.input), self._attempts[run.run_id]))
        return run

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        async for event in self._events(request, context):
            yield runs_pb2.WatchRunResponse(event=event)

    async def _events(self, request: runs_pb2.WatchRunRequest, context: Context) -> AsyncIterator[runs_pb2.RunEvent]:
        del context
        run = self.runs[request.run_id]
        for sequence in (1, 2):
            node = runs_pb2.NodeCompleted(node="research")
            yield runs_pb2.RunEvent(sequence=sequence, run_id=run.run_id, node_completed=node)
        ended = runs_pb2.RunEnded(run=await self.ended(run))
        yield runs_pb2.RunEvent(sequence=3, run_id=run.run_id, run_ended=ended)

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:  # noqa: ARG002 - gRPC's signature
        run = self.runs[request.run_id]
        run.state = runs_pb2.RUN_STATE_CANCELLED
        self.cancelled.add(request.run_id)
        return runs_pb2.CancelRunResponse(run=run)

    async def ExecuteRun(
        self, request: runs_pb2.ExecuteRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        run = self.run_of(request.create)
        async for event in self._events(runs_pb2.WatchRunRequest(run_id=run.run_id), context):
            yield runs_pb2.ExecuteRunResponse(event=event)

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


_STATES = {
    runs_pb2.RUN_STATE_SUCCEEDED: batches_pb2.BATCH_ITEM_STATE_SUCCEEDED,
    runs_pb2.RUN_STATE_NEEDS_REVIEW: batches_pb2.BATCH_ITEM_STATE_NEEDS_REVIEW,
    runs_pb2.RUN_STATE_FAILED: batches_pb2.BATCH_ITEM_STATE_FAILED,
    runs_pb2.RUN_STATE_CANCELLED: batches_pb2.BATCH_ITEM_STATE_CANCELLED,
}


class FakeBatches(batches_pb2_grpc.BatchServiceServicer):
    """Batches whose items end in their order while somebody watches, each by a run of the platform."""

    def __init__(self, platform: FakePlatform) -> None:
        self._platform = platform
        self._by_request: dict[str, str] = {}
        self.batches: dict[str, batches_pb2.Batch] = {}
        self.given: dict[str, list[batches_pb2.NewBatchItem]] = {}
        self.ended: dict[str, dict[int, batches_pb2.BatchItem]] = {}
        self.retried: Counter[str] = Counter()
        self.takes_items = asyncio.Event()
        self.takes_items.set()

    async def CreateBatch(
        self, request: batches_pb2.CreateBatchRequest, context: Context
    ) -> batches_pb2.CreateBatchResponse:
        del context
        batch_id = self._by_request.setdefault(request.request_id, str(uuid4()))
        if batch_id not in self.batches:
            state = batches_pb2.BATCH_STATE_UPLOADING
            self.batches[batch_id] = batches_pb2.Batch(
                batch_id=batch_id, name=request.name, state=state, max_runs=request.max_runs or 8
            )
            self.given[batch_id], self.ended[batch_id] = [], {}
        return batches_pb2.CreateBatchResponse(batch=self.batches[batch_id])

    async def AddBatchItems(
        self, request: batches_pb2.AddBatchItemsRequest, context: Context
    ) -> batches_pb2.AddBatchItemsResponse:
        del context
        await self.takes_items.wait()
        self.given[request.batch_id].extend(request.items)
        return batches_pb2.AddBatchItemsResponse(item_count=len(self.given[request.batch_id]))

    async def StartBatch(
        self, request: batches_pb2.StartBatchRequest, context: Context
    ) -> batches_pb2.StartBatchResponse:
        del context
        batch = self.batches[request.batch_id]
        batch.state = batches_pb2.BATCH_STATE_RUNNING
        return batches_pb2.StartBatchResponse(batch=batch)

    async def WatchBatch(
        self, request: batches_pb2.WatchBatchRequest, context: Context
    ) -> AsyncIterator[batches_pb2.WatchBatchResponse]:
        del context
        batch, ended = self.batches[request.batch_id], self.ended[request.batch_id]
        for number, item in enumerate(self.given[request.batch_id], 1):
            if number not in ended:
                ended[number] = await self._item(request.batch_id, number, item)
            told = batches_pb2.BatchItemEnded(sequence=number, item=ended[number])
            yield batches_pb2.WatchBatchResponse(item_ended=told)
        batch.state = batches_pb2.BATCH_STATE_ENDED
        del batch.counts[:]
        counts = Counter(item.state for item in ended.values())
        batch.counts.extend(batches_pb2.BatchItemCount(state=state, count=count) for state, count in counts.items())
        yield batches_pb2.WatchBatchResponse(batch=batch)

    async def RetryBatch(
        self, request: batches_pb2.RetryBatchRequest, context: Context
    ) -> batches_pb2.RetryBatchResponse:
        del context
        ended = self.ended[request.batch_id]
        failed = [number for number, item in ended.items() if item.state == batches_pb2.BATCH_ITEM_STATE_FAILED]
        for number in failed:
            del ended[number]
        self.retried[request.batch_id] += 1
        return batches_pb2.RetryBatchResponse(batch=self.batches[request.batch_id], retried_count=len(failed))

    async def _item(self, batch_id: str, number: int, item: batches_pb2.NewBatchItem) -> batches_pb2.BatchItem:
        if item.HasField("settled"):
            run = runs_pb2.Run(
                run_id=item.settled.run_id,
                graph_version=item.settled.graph_version,
                state=runs_pb2.RUN_STATE_SUCCEEDED,
                output=item.settled.output,
            )
            state = batches_pb2.BATCH_ITEM_STATE_SETTLED
        else:
            request_id = f"{batch_id}-{number}-{self.retried[batch_id]}"
            made = runs_pb2.CreateRunRequest(input=item.input, request_id=request_id, labels=item.labels)
            run = await self._platform.ended(self._platform.run_of(made))
            state = _STATES[run.state]
        return batches_pb2.BatchItem(
            number=number, key=item.key, state=state, run_id=run.run_id, run=run, settled_by=item.settled.by
        )
