"""The gateway as a batch of findings calls it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc
from signalbox.v1 import runs_pb2

from services.cli.client import GatewayClient
from services.cli.errors import CliError
from services.findings.errors import CallFailed
from services.kit.errors import error_detail


class BatchGateway:
    """Every method raises CallFailed.

    Runs are created on behalf of one trace, to which the gateway links that of each: so a tracing backend finds all
    runs of a batch by one of them.
    """

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._traceparent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"

    async def create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Creates a run, or finds the one that was created by the same request id."""
        with _failing():
            return await self._client.create(request, self._traceparent)

    async def watch(
        self, run_id: str, after_sequence: int, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields a run's events after a sequence number."""
        with _failing():
            async for event in self._client.watch(run_id, after_sequence, timeout_s=timeout_s):
                yield event

    async def cancel(self, run_id: str) -> runs_pb2.Run:
        """Cancels a run."""
        with _failing():
            return await self._client.cancel(run_id)


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except CliError as error:
        said = error.__cause__
        detail = error_detail(said) if isinstance(said, grpc.aio.AioRpcError) else None
        raise CallFailed(error.message, hint=error.hint, detail=detail) from error
