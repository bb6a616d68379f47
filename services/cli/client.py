"""Calls to the gateway, with errors worded for the person at the terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from signalbox.v1 import (
    agents_pb2_grpc,
    maintenance_pb2_grpc,
    questions_pb2_grpc,
    recorded_answers_pb2,
    runs_pb2,
    runs_pb2_grpc,
    threads_pb2_grpc,
)

from services.cli.errors import CliError, from_rpc, from_stream
from services.cli.exit_codes import ExitCode
from services.console.explained import Explained
from services.console.reading import Explanation, RunReader
from services.kit.identity.bearer import bearer_metadata
from services.kit.wire.event_kinds import DECISION, ENDED_RUN_STATES, NODE_COMPLETED
from services.kit.wire.pages import listed
from services.kit.wire.retries import SAFE_TO_RETRY, repeated
from services.kit.wire.silence import GRPC_OPTIONS

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# A call may still be given to a connection that is being found dead, and a watch that has begun nowhere loses nothing.
SERVICE_CONFIG = json.dumps({"methodConfig": [repeated((*SAFE_TO_RETRY, ("signalbox.v1.RunService", "WatchRun")))]})
# What a node's end is told by: its decision, or where no router follows, its completion.
Step = runs_pb2.Decision | runs_pb2.NodeCompleted
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
    # Gives the token of the moment, where the first may expire before a command is done.
    renewed: Callable[[], str] | None = field(default=None, repr=False)

    @property
    def current_token(self) -> str:
        """The token of the moment."""
        return self.renewed() if self.renewed else self.token

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What the gateway knows the caller by at this moment."""
        return (bearer_metadata(self.current_token),)


class GatewayClient:
    """RunService as the commands need it, and the stubs of the others for `call`. Every method raises CliError."""

    def __init__(self, channel: grpc.aio.Channel, connection: Connection) -> None:
        self._stub = self.runs = runs_pb2_grpc.RunServiceStub(channel)
        self.agents = agents_pb2_grpc.AgentServiceStub(channel)
        self.questions = questions_pb2_grpc.QuestionServiceStub(channel)
        self.threads = threads_pb2_grpc.ThreadServiceStub(channel)
        self.maintenance = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        self._address = connection.address
        self._connection = connection

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return self._connection.metadata

    @property
    def _reader(self) -> RunReader:
        return RunReader(self._stub, self._metadata, CALL_TIMEOUT_S)

    async def execute(
        self, create: runs_pb2.CreateRunRequest, *, timeout_s: float | None, token_chunks: bool = False
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        """Creates a run and yields its events, with what its models say if asked."""
        request = runs_pb2.ExecuteRunRequest(create=create, token_chunks=token_chunks)
        run_id = ""
        try:
            async for response in self._stub.ExecuteRun(request, metadata=self._metadata, timeout=timeout_s):
                run_id = response.event.run_id
                yield response.event
        except grpc.aio.AioRpcError as error:
            raise from_stream(error, self._address, run_id=run_id, timeout_s=timeout_s) from error

    async def create(self, request: runs_pb2.CreateRunRequest, traceparent: str = "") -> runs_pb2.Run:
        """Creates a run, or finds the one that was created by the same request id; the gateway links it to a trace."""
        metadata = (*self._metadata, ("traceparent", traceparent)) if traceparent else self._metadata
        with self._worded():
            response = await self._stub.CreateRun(request, metadata=metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def watch(
        self, run_id: str, after_sequence: int, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields a run's events after a sequence number."""
        try:
            async for event in self._events(run_id, after_sequence, timeout_s):
                yield event
        except grpc.aio.AioRpcError as error:
            raise from_stream(error, self._address, run_id=run_id, timeout_s=timeout_s) from error

    async def get(self, run_id: str) -> runs_pb2.Run:
        """Returns a run."""
        with self._worded():
            return await self._reader.run(run_id)

    async def list_runs(self, request: runs_pb2.ListRunsRequest, *, limit: int) -> list[runs_pb2.Run]:
        """Returns the newest runs, up to a limit."""
        return await self.listed(self._stub.ListRuns, request, "runs", limit=limit)

    async def steps(self, run: runs_pb2.Run) -> list[Step]:
        """Returns the ends of a run's nodes in order; decisions alone while it runs, or once its events are gone."""
        decisions = await self.decisions(run.run_id)
        if run.state not in ENDED_RUN_STATES:
            return list(decisions)
        with self._worded():
            events = [event async for event in self._events(run.run_id, 0, CALL_TIMEOUT_S)]
        ends: list[Step] = []
        for event in events:
            if event.HasField(DECISION):
                ends.append(event.decision)
            elif event.HasField(NODE_COMPLETED):
                ends.append(event.node_completed)
        return ends if len(ends) >= len(decisions) else list(decisions)

    async def decisions(self, run_id: str) -> list[runs_pb2.Decision]:
        """Returns all decisions of a run."""
        with self._worded():
            return await self._reader.decisions(run_id)

    async def recorded_answers(self, run_id: str) -> list[recorded_answers_pb2.RecordedAnswer]:
        """Returns what the nodes of a recorded run heard."""
        request = runs_pb2.ListRecordedAnswersRequest(run_id=run_id)
        return await self.listed(self._stub.ListRecordedAnswers, request, "answers")

    async def search_decisions(self, request: runs_pb2.ListDecisionsRequest, *, limit: int) -> list[runs_pb2.Decision]:
        """Returns the newest decisions that fit, of all runs that the caller may see, up to a limit."""
        return await self.listed(self._stub.ListDecisions, request, "decisions", limit=limit)

    async def count_decisions(self, request: runs_pb2.CountDecisionsRequest) -> runs_pb2.CountDecisionsResponse:
        """Counts an agent's newest decisions by rule."""
        with self._worded():
            return await self._stub.CountDecisions(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)

    async def explanation(self, run_id: str) -> Explanation:
        """Returns a run's decisions in words, and its story; a platform of an earlier release lacks one or both."""
        with self._worded():
            return await self._reader.explanation(run_id)

    async def explained(self, run_id: str) -> Explained | None:
        """Returns what the page of a run shows; None where the platform is too old to tell it."""
        with self._worded():
            return await self._reader.explained(run_id)

    async def cancel(self, run_id: str) -> runs_pb2.Run:
        """Asks a run to stop."""
        request = runs_pb2.CancelRunRequest(run_id=run_id)
        with self._worded():
            response = await self._stub.CancelRun(request, metadata=self._metadata, timeout=CALL_TIMEOUT_S)
        return response.run

    async def call(
        self,
        method: Callable[..., Awaitable[ResponseT]],
        request: Message,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> ResponseT:
        """Makes a call of `runs`, `agents`, `questions`, `threads` or `maintenance`."""
        with self._worded(timeout_s):
            return await method(request, metadata=self._metadata, timeout=timeout_s)

    async def listed(
        self,
        method: Callable[..., Awaitable[ResponseT]],
        request: Message,
        items: str,
        *,
        limit: int | None = None,
    ) -> list[Any]:
        """Returns the `items` of a list that comes in pages, up to a limit."""
        return await listed(partial(self.call, method, timeout_s=CALL_TIMEOUT_S), request, items, limit=limit)

    async def _events(
        self, run_id: str, after_sequence: int, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=after_sequence)
        async for response in self._stub.WatchRun(request, metadata=self._metadata, timeout=timeout_s):
            yield response.event

    @contextmanager
    def _worded(self, given_s: float | None = None) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, self._address, given_s=given_s or CALL_TIMEOUT_S) from error


@asynccontextmanager
async def open_gateway(connection: Connection) -> AsyncIterator[GatewayClient]:
    """A client for as long as the context lasts."""
    async with channel_to(connection) as channel:
        yield GatewayClient(channel, connection)


def channel_to(connection: Connection) -> grpc.aio.Channel:
    """Opens a channel to the gateway; the caller closes it."""
    options = [
        *GRPC_OPTIONS,
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # A gateway that comes back is found within seconds, not after two minutes of backoff.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]
    if connection.tls is None:
        return grpc.aio.insecure_channel(connection.address, options=options)
    return grpc.aio.secure_channel(connection.address, _credentials(connection.tls), options=options)


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
