"""Calls to the gateway, with errors worded for the person at the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from signalbox.v1 import maintenance_pb2_grpc, runs_pb2, runs_pb2_grpc, threads_pb2_grpc

from services.cli.errors import CliError, from_rpc
from services.cli.exit_codes import ExitCode
from services.kit.identity import bearer_metadata

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# What a node's end is told by: its decision, or where no router follows, its completion.
Step = runs_pb2.Decision | runs_pb2.NodeCompleted
ENDED = frozenset(
    {
        runs_pb2.RUN_STATE_SUCCEEDED,
        runs_pb2.RUN_STATE_FAILED,
        runs_pb2.RUN_STATE_CANCELLED,
        runs_pb2.RUN_STATE_NEEDS_REVIEW,
    }
)
CALL_TIMEOUT_S = 30.0
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True)
class Tls:
    """PEM files for TLS to the gateway; certificate and key only where it wants to see them."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Connection:
    """Where the gateway is, and who calls; on a local platform, also which folders' repositories it may read."""

    address: str
    token: str = field(repr=False)
    tls: Tls | None = None
    code_roots: Sequence[str] | None = None


class GatewayClient:
    """RunService as the commands need it, and the stubs of the others for `call`. Every method raises CliError."""

    def __init__(self, channel: grpc.aio.Channel, connection: Connection) -> None:
        self._stub = runs_pb2_grpc.RunServiceStub(channel)
        self.threads = threads_pb2_grpc.ThreadServiceStub(channel)
        self.maintenance = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        self._address = connection.address
        self._metadata = (bearer_metadata(connection.token),)

    async def execute(
        self, create: runs_pb2.CreateRunRequest, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        """Create a run and yield its events."""
        request = runs_pb2.ExecuteRunRequest(create=create)
        with self._worded():
            async for response in self._stub.ExecuteRun(request, metadata=self._metadata, timeout=timeout_s):
                yield response.event

    async def create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Create a run, or find the one that was created by the same request id."""
        with self._worded():
            response = await self._stub.CreateRun(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def watch(
        self, run_id: str, after_sequence: int, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yield a run's events after a sequence number."""
        request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=after_sequence)
        with self._worded():
            async for response in self._stub.WatchRun(request, metadata=self._metadata, timeout=timeout_s):
                yield response.event

    async def get(self, run_id: str) -> runs_pb2.Run:
        """Return a run."""
        request = runs_pb2.GetRunRequest(run_id=run_id)
        with self._worded():
            response = await self._stub.GetRun(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def list_runs(self, request: runs_pb2.ListRunsRequest, *, limit: int) -> list[runs_pb2.Run]:
        """Return the newest runs, page by page, up to a limit."""
        runs: list[runs_pb2.Run] = []
        while len(runs) < limit:
            request.page_size = min(limit - len(runs), 500)
            with self._worded():
                page = await self._stub.ListRuns(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
            runs.extend(page.runs)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return runs

    async def steps(self, run: runs_pb2.Run) -> list[Step]:
        """Return the ends of a run's nodes in order; its decisions alone while it runs, or once its events are gone."""
        decisions = await self.decisions(run.run_id)
        if run.state not in ENDED:
            return list(decisions)
        events = [event async for event in self.watch(run.run_id, 0, timeout_s=CALL_TIMEOUT_S)]
        ends: list[Step] = []
        for event in events:
            if event.HasField("decision"):
                ends.append(event.decision)
            elif event.HasField("node_completed"):
                ends.append(event.node_completed)
        return ends if len(ends) >= len(decisions) else list(decisions)

    async def decisions(self, run_id: str) -> list[runs_pb2.Decision]:
        """Return all decisions of a run."""
        request = runs_pb2.ListDecisionsRequest(run_id=run_id, page_size=1000)
        decisions: list[runs_pb2.Decision] = []
        while True:
            with self._worded():
                page = await self._stub.ListDecisions(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
            decisions.extend(page.decisions)
            if not page.next_page_token:
                return decisions
            request.page_token = page.next_page_token

    async def cancel(self, run_id: str) -> runs_pb2.Run:
        """Ask a run to stop."""
        request = runs_pb2.CancelRunRequest(run_id=run_id)
        with self._worded():
            response = await self._stub.CancelRun(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def resume(self, run_id: str, input_request_id: str, answer: str) -> runs_pb2.Run:
        """Answer a run's question."""
        request = runs_pb2.ResumeRunRequest(run_id=run_id, input_request_id=input_request_id, answer=answer)
        with self._worded():
            response = await self._stub.ResumeRun(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def call(
        self,
        method: Callable[..., Awaitable[ResponseT]],
        request: Message,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> ResponseT:
        """Make a call of `threads` or `maintenance`."""
        with self._worded():
            return await method(request, metadata=self._metadata, timeout=timeout_s)

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, self._address) from error


@asynccontextmanager
async def open_gateway(connection: Connection) -> AsyncIterator[GatewayClient]:
    """A client for as long as the context lasts."""
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    if connection.tls is None:
        channel = grpc.aio.insecure_channel(connection.address, options=options)
    else:
        channel = grpc.aio.secure_channel(connection.address, _credentials(connection.tls), options=options)
    async with channel:
        yield GatewayClient(channel, connection)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    def read(path: Path | None) -> bytes | None:
        return path.read_bytes() if path else None

    try:
        return grpc.ssl_channel_credentials(read(tls.ca), read(tls.key), read(tls.certificate))
    except OSError as error:
        raise CliError(
            f"can't read {error.filename}: {error.strerror}",
            hint="check SIGNALBOX_GATEWAY_CA, SIGNALBOX_TLS_CERT and SIGNALBOX_TLS_KEY",
            code=ExitCode.USAGE,
        ) from error
