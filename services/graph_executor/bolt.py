"""Transactions on a server that speaks Bolt: connections, bounds, and what its errors mean."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import uniform
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from neo4j import READ_ACCESS, WRITE_ACCESS, AsyncGraphDatabase, AsyncSession, AsyncTransaction, TrustCustomCAs
from neo4j.exceptions import (
    AuthError,
    ClientError,
    ConfigurationError,
    ConstraintError,
    DatabaseUnavailable,
    DriverError,
    Forbidden,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from services.graph_executor.bolt_servers import BoltServer, server_of
from services.graph_executor.errors import GraphAway, GraphForbidden, GraphMissing
from services.graph_executor.policy import LONGEST_TIMEOUT_MS
from services.kit.tools.effects import ATTEMPTS, Contended
from services.kit.tools.executor import ToolRefused

Result = TypeVar("Result")
# Over what the server itself takes until it stops a transaction.
ANSWER_MARGIN_S: Final = 5.0
LONGEST_PAUSE_S: Final = 0.02
_LONGEST_TOLD: Final = 300
# How often a transaction is made again that a constraint refused at its end: a server that makes nobody wait says so of
# two that made the same, and the second attempt finds what the other has made.
CONSTRAINED_AGAIN: Final = 3
# ArcadeDB sees an edge that another has made only as it deletes the node, and has no code of its own for that.
_STILL_JOINED: Final = "DeleteConnectedNode"
# Memgraph has one code for all; what it says is told apart by its words.
_MEMGRAPH: Final = "Memgraph."
_CONFLICT: Final = "conflicting transactions"
_STOPPED: Final = "asked to abort"
_OUT_OF_MEMORY: Final = ("OutOfMemory", "Memory limit exceeded", "queryMaxHeapElementsAllowedPerOp")
# They repeat the text of a query, with what stands in it.
logging.getLogger("neo4j.notifications").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class BoltResult:
    """What a statement gave: at most as many rows as were asked for, and what it wrote."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    counts: Mapping[str, int]
    writes: bool


class BoltTransaction:
    """A transaction, of one database, that has begun."""

    def __init__(self, session: AsyncSession, transaction: AsyncTransaction) -> None:
        self._session = session
        self._transaction = transaction

    async def rows(self, text: str, parameters: Mapping[str, Any]) -> list[list[Any]]:
        """Runs a statement and returns all that it gives."""
        return (await self.run(text, parameters)).rows

    async def run(self, text: str, parameters: Mapping[str, Any], most: int | None = None) -> BoltResult:
        """Runs a statement; of its rows, `most` are fetched."""
        result = await self._transaction.run(text, dict(parameters))
        columns = result.keys()
        found = [record async for record in result] if most is None else await result.fetch(most)
        summary = await result.consume()
        counts = {name: count for name, count in vars(summary.counters).items() if type(count) is int}
        # Of a query that would write and found nothing to, the server's word for its kind tells.
        writes = summary.counters.contains_updates or summary.query_type not in ("r", None)
        return BoltResult(tuple(columns), [record.values() for record in found], counts, writes)

    async def commit(self) -> None:
        """Commits."""
        await self._transaction.commit()

    async def close(self) -> None:
        """Rolls back what was not committed, and gives the connection back."""
        # What is lost with its connection has been rolled back.
        with suppress(DriverError, Neo4jError, OSError):
            await self._transaction.close()
        with suppress(DriverError, Neo4jError, OSError):
            await self._session.close()


class Bolt:
    """A server that speaks Bolt. User and password are in its URL; `ca` vouches for it, with the schemes in +s."""

    def __init__(self, url: str, *, ca: Path | None, connections: int, wait_s: float, timeout_ms: int) -> None:
        parts = urlsplit(url)
        trusted: dict[str, Any] = {"encrypted": True, "trusted_certificates": TrustCustomCAs(str(ca))} if ca else {}
        # With certificates of its own the driver wants the scheme without its letter.
        scheme = parts.scheme.removesuffix("+s") if ca else parts.scheme
        host = parts.netloc.rpartition("@")[2]
        user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        self._driver = AsyncGraphDatabase.driver(
            urlunsplit((scheme, host, "", parts.query, "")),
            auth=user,
            max_connection_pool_size=connections,
            connection_acquisition_timeout=wait_s,
            connection_timeout=wait_s,
            telemetry_disabled=True,
            **trusted,
        )
        # Of a cluster, whoever is asked next has seen what was written here before.
        self._bookmarks = AsyncGraphDatabase.bookmark_manager()
        self._timeout_s = timeout_ms / 1000
        self._longest_s = self._timeout_s + wait_s + ANSWER_MARGIN_S
        self._server: BoltServer | None = None
        self._writing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._driver.close()

    async def server(self) -> BoltServer:
        """Returns what the server is. Raises GraphAway, and ToolRefused for one that is not known."""
        if self._server is None:
            try:
                async with asyncio.timeout(self._longest_s):
                    info = await self._driver.get_server_info()
            except (Neo4jError, DriverError, OSError) as error:
                raise failure(error) from error
            self._server = server_of(info.agent)
        return self._server

    async def begin(self, database: str, access: str) -> BoltTransaction:
        """Begins a transaction, which the server ends by itself when it has taken too long."""
        session = self._driver.session(database=database, default_access_mode=access, bookmark_manager=self._bookmarks)
        try:
            return BoltTransaction(session, await session.begin_transaction(timeout=self._timeout_s))
        except BaseException:
            await session.close()
            raise

    async def read(self, database: str, work: Callable[[BoltTransaction], Awaitable[Result]]) -> Result:
        """Runs work in a transaction for reading, which is never committed; any server of a cluster may have it.

        Raises what work raises, and what `failure` returns.
        """
        return await self._again_and_again(database, work, READ_ACCESS)

    async def look(self, database: str, work: Callable[[BoltTransaction], Awaitable[Result]]) -> Result:
        """Does the same where writes are made: all that was committed, by whomever, is seen."""
        return await self._again_and_again(database, work, WRITE_ACCESS, keep=False)

    async def write(self, database: str, work: Callable[[BoltTransaction], Awaitable[Result]]) -> Result:
        """Runs work in a transaction, and commits it unless work raises; both again where another was in its way.

        Work may be run more than once, of which one is committed; or two, if the first one's end was not heard. So it
        checks that it is the first. Raises what it raises, Contended, and what `failure` returns.
        """
        # Those of this process wait here: a server lets one at a time through, and the others would hold connections.
        async with self._writing[database]:
            return await self._again_and_again(database, work, WRITE_ACCESS)

    async def define(self, database: str, text: str) -> list[list[Any]]:
        """Runs a statement about the schema, which some servers take outside of transactions only."""
        try:
            async with (
                asyncio.timeout(LONGEST_TIMEOUT_MS / 1000),
                self._driver.session(database=database, default_access_mode=WRITE_ACCESS) as session,
            ):
                result = await session.run(text)
                return [record.values() async for record in result]
        except (Neo4jError, DriverError, OSError) as error:
            raise failure(error) from error

    async def _again_and_again(
        self,
        database: str,
        work: Callable[[BoltTransaction], Awaitable[Result]],
        access: str,
        *,
        keep: bool = True,
    ) -> Result:
        left = dict(_MOST_OFTEN)
        while True:
            try:
                async with asyncio.timeout(self._longest_s):
                    return await self._once(database, work, access, keep=keep and access == WRITE_ACCESS)
            except (Neo4jError, DriverError, OSError) as error:
                reason = _reason_to_repeat(error)
                if left.get(reason, 0) == 0:
                    raise failure(error) from error
                left[reason] -= 1
            await asyncio.sleep(uniform(0, LONGEST_PAUSE_S))  # noqa: S311 - so that two that met don't meet again

    async def _once(
        self, database: str, work: Callable[[BoltTransaction], Awaitable[Result]], access: str, *, keep: bool
    ) -> Result:
        transaction = await self.begin(database, access)
        try:
            result = await work(transaction)
            if keep:
                await transaction.commit()
            return result
        finally:
            await transaction.close()


# A connection that the server had closed: the next is a new one. One that waited for another until its time was over:
# once more. Each that was refused for another's sake means that the other got through.
_MOST_OFTEN: Final = {"lost": 1, "waited": 1, "constrained": CONSTRAINED_AGAIN, "conflict": ATTEMPTS}


def _reason_to_repeat(error: Exception) -> str:
    code, text = getattr(error, "code", "") or "", str(error)
    if isinstance(error, SessionExpired | ServiceUnavailable):
        return "lost"
    if isinstance(error, ConstraintError) or _STILL_JOINED in text:
        return "constrained"
    if code.startswith("Neo.TransientError.Transaction.") or (code.startswith(_MEMGRAPH) and _CONFLICT in text):
        return "conflict"
    return "waited" if code.endswith("LockClientStopped") else ""


def failure(error: Exception) -> Exception:
    """Returns what an error of the driver, or of the server, means here."""
    text = " ".join((getattr(error, "message", "") or str(error)).split())[:_LONGEST_TOLD]
    code = getattr(error, "code", "") or ""
    if isinstance(error, ConfigurationError):
        return GraphForbidden(f"the graph database can't be used as it is set: {text}")
    if not isinstance(error, Neo4jError) or isinstance(error, DatabaseUnavailable):
        return GraphAway(f"the graph database does not answer: {type(error).__name__}")
    if "DatabaseNotFound" in code:
        return GraphMissing(f"the graph database has no database of that name: {text}")
    if isinstance(error, Forbidden):
        return GraphForbidden(f"the graph database does not let its user do that: {text}")
    if isinstance(error, AuthError):
        return GraphAway(f"the graph database does not answer: {type(error).__name__}")
    if _reason_to_repeat(error) in ("conflict", "waited"):
        return Contended("others were in the way of a transaction, again and again; ask again")
    return _refusal(error, code, text)


def _refusal(error: Neo4jError, code: str, text: str) -> Exception:
    memgraph = code.startswith(_MEMGRAPH)
    if "TransactionTimedOut" in code or (memgraph and _STOPPED in text):
        return ToolRefused("timeout", "The query ran too long and was stopped; make it smaller.", retryable=True)
    if "AccessMode" in code:
        return ToolRefused("write_refused", "The query would write; this call may only read.")
    # What is wrong with a query repeats its words, which say nothing of the server.
    if isinstance(error, ClientError) and not memgraph:
        return ToolRefused("query_failed", f"The graph database refused the query: {text}")
    if any(word in code or word in text for word in _OUT_OF_MEMORY):
        return ToolRefused("too_large", "The query needs more memory than a query may take; make it smaller.")
    if isinstance(error, TransientError) and not memgraph:
        return GraphAway(f"the graph database can't do it now: {text}")
    return ToolRefused("query_failed", f"The graph database refused the query: {text}")
