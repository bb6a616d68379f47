"""The gateway as the console asks it: the public API, with the caller's own token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from signalbox.v1 import (
    agents_pb2_grpc,
    maintenance_pb2_grpc,
    questions_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    threads_pb2_grpc,
)

from services.console.errors import NotOffered, from_rpc
from services.console.explained import Explained
from services.console.reading import Metadata, RunReader
from services.kit.identity.bearer import bearer_metadata

ResponseT = TypeVar("ResponseT", bound=Message)


class Gateway:
    """The stubs, and calls whose failure is a page: every method raises ConsoleError."""

    def __init__(
        self, channel: grpc.aio.Channel, address: str, token: Callable[[], str], *, call_timeout_s: float
    ) -> None:
        self.runs = runs_pb2_grpc.RunServiceStub(channel)
        self.agents = agents_pb2_grpc.AgentServiceStub(channel)
        self.questions = questions_pb2_grpc.QuestionServiceStub(channel)
        self.threads = threads_pb2_grpc.ThreadServiceStub(channel)
        self.maintenance = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        self.address = address
        self.token = token
        self._timeout_s = call_timeout_s

    async def call(
        self, method: Callable[..., Awaitable[ResponseT]], request: Message, *, timeout_s: float | None = None
    ) -> ResponseT:
        """Makes a call of one of the stubs."""
        with self._worded():
            return await method(request, metadata=self._metadata(), timeout=timeout_s or self._timeout_s)

    async def explained(self, run_id: str) -> Explained:
        """Returns what the page of a run shows."""
        with self._worded():
            reader = RunReader(self.runs, self._metadata(), self._timeout_s)
            explained = await reader.explained(run_id)
        if explained is None:
            raise NotOffered("The platform does not tell enough about a run to show why it took its route.")
        return explained

    async def watch(self, run_id: str, after_sequence: int) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields a run's events after a number, until it ends or awaits input, and what models say meanwhile."""
        request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=after_sequence, token_chunks=True)
        with self._worded():
            call = self.runs.WatchRun(request, metadata=self._metadata())
            try:
                async for response in call:
                    yield response.event
            finally:
                call.cancel()

    def _metadata(self) -> Metadata:
        return (bearer_metadata(self.token()),)

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, self.address) from error
