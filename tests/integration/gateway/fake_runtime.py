"""A runtime that does what a test tells it, behind a wire that a test can cut."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import grpc
from grpc_status import rpc_status
from signalbox.v1 import (
    maintenance_pb2,
    maintenance_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    threads_pb2,
    threads_pb2_grpc,
)

from services.kit.errors import SignalboxError, to_status
from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.local.ports import HeldPorts

Context = grpc.aio.ServicerContext[Any, Any]


class RunStore:
    """The runs that all replicas of a fake runtime share."""

    def __init__(self) -> None:
        self.runs: dict[str, runs_pb2.Run] = {}
        self.by_request: dict[str, str] = {}
        self._events: dict[str, list[runs_pb2.RunEvent]] = {}
        self._changed = asyncio.Condition()

    async def create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Finds a run by its request id, or makes one; without an id each is another."""
        run_id = self.by_request.get(request.request_id) if request.request_id else None
        if run_id is None:
            run_id = str(uuid4())
            if request.request_id:
                self.by_request[request.request_id] = run_id
            self.runs[run_id] = runs_pb2.Run(
                run_id=run_id, correlation_id=request.correlation_id, state=runs_pb2.RUN_STATE_RUNNING
            )
            self._events[run_id] = []
            await self.emit(run_id, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING))
        return self.runs[run_id]

    async def emit(self, run_id: str, **event: Any) -> None:
        """Lets something happen to a run."""
        async with self._changed:
            events = self._events[run_id]
            events.append(runs_pb2.RunEvent(sequence=len(events) + 1, run_id=run_id, **event))
            self._changed.notify_all()

    async def step(self, run_id: str, node: str) -> None:
        """Lets a node of a run end."""
        await self.emit(run_id, node_completed=runs_pb2.NodeCompleted(node=node))

    async def ask(self, run_id: str) -> None:
        """Lets a run wait for input."""
        state = runs_pb2.RUN_STATE_AWAITING_INPUT
        self.runs[run_id].state = state
        await self.emit(run_id, state_changed=runs_pb2.StateChanged(state=state))

    async def end(self, run_id: str) -> None:
        """Lets a run succeed."""
        self.runs[run_id].state = runs_pb2.RUN_STATE_SUCCEEDED
        await self.emit(run_id, run_ended=runs_pb2.RunEnded(run=self.runs[run_id]))

    async def follow(self, run_id: str, sequence: int) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields events after a sequence number until the run has ended, or has nothing to say but a question."""
        events = self._events[run_id]
        sequence = min(sequence, len(events))  # nobody has seen more than there was
        while True:
            if sequence < len(events):
                sequence += 1
                yield events[sequence - 1]
            elif self._resting(run_id):
                return
            else:
                async with self._changed:
                    await self._changed.wait()

    def _resting(self, run_id: str) -> bool:
        return self.runs[run_id].state in (runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_AWAITING_INPUT)


class Replica(runs_pb2_grpc.RunServiceServicer):
    """One replica of a fake runtime. `failure` is raised by every call while it is set."""

    def __init__(self, store: RunStore, gateway_key: str) -> None:
        self.store = store
        self.calls: list[tuple[str, Any, Caller]] = []
        self.baggage: list[dict[str, str]] = []
        self.open_streams = 0
        self.failure: SignalboxError | None = None
        self.resend_from_start = False
        self.cut_once_created = False
        self._verifier = CallerTokenVerifier(gateway_key)
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        runs_pb2_grpc.add_RunServiceServicer_to_server(self, self._server)
        threads_pb2_grpc.add_ThreadServiceServicer_to_server(Threads(self), self._server)  # type: ignore[abstract]
        maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server(Maintenance(self), self._server)  # type: ignore[abstract]
        self._wire: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self._port = 0
        self._ports = HeldPorts()
        self.address = self._ports.hold("127.0.0.1:0")

    async def start(self) -> None:
        """Serves behind a wire of our own."""
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        await self.come_back()

    async def cut(self) -> None:
        """Vanish at once, as a process does that is killed: connections are reset, new ones refused."""
        assert self._wire is not None
        self._wire.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def reset(self) -> None:
        """Resets every connection, but accepts new ones."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def come_back(self) -> None:
        """Accepts connections again, at the same address."""
        host, port = self.address.split(":")
        self._wire = await asyncio.start_server(self._connect, host, int(port))

    async def stop(self) -> None:
        """Cut, and stop the server behind it."""
        await self.cut()
        await self._server.stop(None)

    async def drain(self, grace_s: float) -> None:
        """Stops as a server does that is told to: refuses new calls, cancels those in flight after the grace."""
        await self._server.stop(grace_s)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        assert self._wire is not None
        if not self._wire.is_serving():  # cut while this connection was made
            writer.transport.abort()
            inner_writer.transport.abort()
            return
        self._writers |= {writer, inner_writer}
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            pipe = asyncio.create_task(self._pump(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            return
        finally:
            self._writers.discard(sink)
            sink.transport.abort()

    async def enter(self, method: str, request: Any, context: Context) -> None:
        """Notes a call, who the gateway says makes it and the ids it comes with, or fails as told."""
        metadata = context.invocation_metadata() or ()
        caller = self._verifier.verify(bearer_token(metadata))
        carried = ",".join(str(value) for key, value in metadata if key == "baggage")
        self.baggage.append(dict(entry.split("=", 1) for entry in carried.split(",") if entry))
        self.calls.append((method, request, caller))
        if self.failure is not None:
            await context.abort_with_status(rpc_status.to_status(to_status(self.failure)))

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        await self.enter("CreateRun", request, context)
        return runs_pb2.CreateRunResponse(run=await self.store.create(request))

    async def ExecuteRun(
        self, request: runs_pb2.ExecuteRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        await self.enter("ExecuteRun", request, context)
        run = await self.store.create(request.create)
        if self.cut_once_created:
            self.cut_once_created = False
            await self.reset()
        async for event in self._stream(run.run_id, 0):
            yield runs_pb2.ExecuteRunResponse(event=event)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        await self.enter("WatchRun", request, context)
        async for event in self._stream(request.run_id, 0 if self.resend_from_start else request.after_sequence):
            yield runs_pb2.WatchRunResponse(event=event)

    async def _stream(self, run_id: str, after: int) -> AsyncIterator[runs_pb2.RunEvent]:
        self.open_streams += 1
        try:
            async for event in self.store.follow(run_id, after):
                yield event
        finally:
            self.open_streams -= 1

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        await self.enter("GetRun", request, context)
        return runs_pb2.GetRunResponse(run=self.store.runs[request.run_id])

    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        await self.enter("ListRuns", request, context)
        return runs_pb2.ListRunsResponse(runs=self.store.runs.values())

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:
        await self.enter("CancelRun", request, context)
        return runs_pb2.CancelRunResponse(run=self.store.runs[request.run_id])

    async def ResumeRun(self, request: runs_pb2.ResumeRunRequest, context: Context) -> runs_pb2.ResumeRunResponse:
        await self.enter("ResumeRun", request, context)
        return runs_pb2.ResumeRunResponse(run=self.store.runs[request.run_id])

    async def ListDecisions(
        self, request: runs_pb2.ListDecisionsRequest, context: Context
    ) -> runs_pb2.ListDecisionsResponse:
        await self.enter("ListDecisions", request, context)
        return runs_pb2.ListDecisionsResponse(decisions=[runs_pb2.Decision(run_id=request.run_id, sequence=1)])

    async def CountDecisions(
        self, request: runs_pb2.CountDecisionsRequest, context: Context
    ) -> runs_pb2.CountDecisionsResponse:
        await self.enter("CountDecisions", request, context)
        return runs_pb2.CountDecisionsResponse(decision_count=1)

    async def CountRuns(self, request: runs_pb2.CountRunsRequest, context: Context) -> runs_pb2.CountRunsResponse:
        await self.enter("CountRuns", request, context)
        return runs_pb2.CountRunsResponse(run_count=1)

    async def ExplainRun(self, request: runs_pb2.ExplainRunRequest, context: Context) -> runs_pb2.ExplainRunResponse:
        await self.enter("ExplainRun", request, context)
        return runs_pb2.ExplainRunResponse(explanations=[runs_pb2.DecisionExplanation(sequence=1)])

    async def ListRecordedAnswers(
        self, request: runs_pb2.ListRecordedAnswersRequest, context: Context
    ) -> runs_pb2.ListRecordedAnswersResponse:
        await self.enter("ListRecordedAnswers", request, context)
        return runs_pb2.ListRecordedAnswersResponse()


class Threads(threads_pb2_grpc.ThreadServiceServicer):
    """Threads of a replica: whatever is asked for is there."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def GetThread(self, request: threads_pb2.GetThreadRequest, context: Context) -> threads_pb2.GetThreadResponse:
        await self._replica.enter("GetThread", request, context)
        return threads_pb2.GetThreadResponse(thread=threads_pb2.Thread(thread_id=request.thread_id))


class Maintenance(maintenance_pb2_grpc.MaintenanceServiceServicer):
    """Maintenance of a replica: there is nothing to do."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def Prune(self, request: maintenance_pb2.PruneRequest, context: Context) -> maintenance_pb2.PruneResponse:
        await self._replica.enter("Prune", request, context)
        return maintenance_pb2.PruneResponse()
