"""Queries to a FalkorDB server: connections, bounds, and what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from falkordb.asyncio.graph import AsyncGraph
from falkordb.asyncio.query_result import QueryResult
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as ConnectionLost,
)
from redis.exceptions import (
    TimeoutError as NoAnswer,
)

from services.graph_executor.errors import GraphAway, GraphForbidden, GraphFull
from services.graph_executor.metrics import QUERIES_OVERDUE
from services.kit.telemetry.logs import get_logger
from services.kit.tools.executor import ToolRefused

log = get_logger()
T = TypeVar("T")
# Over what the server itself takes until it stops a query.
ANSWER_MARGIN_S: Final = 5.0
_LONGEST_TOLD: Final = 300


class Falkor:
    """A FalkorDB server."""

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None,
        connections: int,
        wait_s: float,
        timeout_ms: int,
        bounds: Mapping[str, int] = MappingProxyType({}),
        ends_overdue: bool = False,
    ) -> None:
        tls = {"ssl_ca_certs": str(ca)} if ca else {}
        self._pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=wait_s,
            decode_responses=True,
            socket_connect_timeout=wait_s,
            socket_timeout=timeout_ms / 1000 + ANSWER_MARGIN_S,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._bound,
            **tls,
        )
        self._bounds = bounds
        self._ends_overdue = ends_overdue
        self._redis = Redis(connection_pool=self._pool)
        self._timeout_ms = timeout_ms

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()
        await self._pool.aclose()

    async def _bound(self, connection: AbstractConnection) -> None:
        """Sets the server's bounds before anything is asked of it: one that was started again has forgotten them."""
        await connection.on_connect()
        for name, value in self._bounds.items():
            await connection.send_command("GRAPH.CONFIG", "SET", name, value)
            await connection.read_response()

    async def query(self, graph: str, text: str, parameters: Mapping[str, Any]) -> QueryResult:
        """Runs a query that may write. Raises GraphAway, GraphFull, ToolRefused."""
        return await self._run(graph, text, parameters, read_only=False)

    async def read(self, graph: str, text: str, parameters: Mapping[str, Any], *, repeats: bool = True) -> QueryResult:
        """Runs a query that the server refuses if it would write. Raises GraphAway, GraphFull, ToolRefused."""
        return await self._run(graph, text, parameters, read_only=True, repeats=repeats)

    async def read_for_caller(self, graph: str, text: str, parameters: Mapping[str, Any]) -> QueryResult:
        """Runs a caller's query like `read`; one that outlasts its time is not asked again.

        Raises GraphAway, GraphFull, ToolRefused.
        """
        # A server that can't be reached, or a connection that is waited for in vain, is no query that runs on.
        await self.command("PING")
        began = time.monotonic()
        try:
            return await self.read(graph, text, parameters, repeats=False)
        except GraphAway as error:
            if time.monotonic() - began < self._timeout_ms / 1000:
                # The server had closed the connection, or went away before it could be at fault.
                return await self.read(graph, text, parameters, repeats=False)
            if isinstance(error.__cause__, NoAnswer):
                await self._end_overdue()
            told = "The query ran on after its time and could not be stopped; ask for less."
            raise ToolRefused("timeout", told) from error

    async def _end_overdue(self) -> None:
        """Ends a server that is still at a query after its time, where somebody starts it again; else says so only.

        It has two threads for all callers, and no other way to get one back. What it answered is on the disk.
        """
        QUERIES_OVERDUE.inc()
        log.error("query overdue", timeout_ms=self._timeout_ms, server_is_ended=self._ends_overdue)
        if self._ends_overdue:
            with suppress(GraphAway):  # it has no answer to this
                await self.command("SHUTDOWN", "NOSAVE", "NOW", "FORCE")

    async def command(self, *arguments: str | int) -> Any:
        """Runs any other command. Raises GraphAway, GraphFull, ToolRefused."""
        return await _answered(lambda: self._redis.execute_command(*arguments), repeats=True)  # type: ignore[no-untyped-call]

    async def _run(
        self, graph: str, text: str, parameters: Mapping[str, Any], *, read_only: bool, repeats: bool = True
    ) -> QueryResult:
        # A client for each query: it remembers what number a label has, which a restored server may have otherwise.
        client = AsyncGraph(self._redis, graph)
        run = client.ro_query if read_only else client.query
        return await _answered(lambda: run(text, dict(parameters), timeout=self._timeout_ms), repeats=repeats)


async def _answered(ask: Callable[[], Awaitable[T]], *, repeats: bool) -> T:
    """Asks the server, once more if it had closed the connection; every write checks that it is the first."""
    try:
        try:
            return await ask()
        except ConnectionLost:
            if not repeats:
                raise
            return await ask()
    except RedisError as error:
        raise _failure(error) from error


def _failure(error: RedisError) -> Exception:
    text = " ".join(str(error).split())[:_LONGEST_TOLD]
    if isinstance(error, OutOfMemoryError) or text.startswith("OOM"):
        return GraphFull("the graph database has reached its bound of memory")
    if isinstance(error, NoPermissionError):
        return GraphForbidden(f"the graph database does not let its user do that: {text}")
    if isinstance(error, ConnectionLost | NoAnswer | BusyLoadingError | AuthenticationError):
        return GraphAway(f"the graph database does not answer: {type(error).__name__}")
    if not isinstance(error, ResponseError) or text.startswith(("LOADING", "MASTERDOWN", "READONLY", "MISCONF")):
        return GraphAway(f"the graph database can't do it now: {text}")
    if "timed out" in text:
        return ToolRefused("timeout", "The query ran too long and was stopped; make it smaller.", retryable=True)
    if "mem consumption" in text:
        return ToolRefused("too_large", "The query needs more memory than a query may take; make it smaller.")
    if "Max pending queries" in text:
        return GraphFull("the graph database has too many queries waiting")
    if "only on read-only queries" in text:
        return ToolRefused("write_refused", "The query would write; this call may only read.")
    return ToolRefused("query_failed", f"The graph database refused the query: {text}")
