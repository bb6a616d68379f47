"""The graph databases that the same tests are run over."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol
from uuid import uuid4

from services.graph_executor.bolt import Bolt
from services.graph_executor.bolt_store import BoltStore, database_of
from services.graph_executor.falkor import Falkor
from services.graph_executor.falkor_store import FalkorStore
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.store import GraphStore
from services.local.falkordb import FalkorServer
from tests.fixtures.bolt_server import ArcadeServer, OwnServer

TIMEOUT_MS = 5000


class GraphServer(Protocol):
    """A graph database, and what a test sees of it past the executor."""

    # Whether it has one graph for all.
    one_graph: bool

    @property
    def url(self) -> str:
        """Where it is."""

    async def new_graph(self, *, tenant: str = "") -> str:
        """Returns the name of a graph that is empty, and not there yet if the server makes graphs by itself.

        With a tenant it is what an executor calls that tenant's.
        """

    async def rows(self, graph: str, text: str) -> list[list[Any]]:
        """Runs a query and returns its rows; whatever it writes is not kept, or refused."""

    async def write(self, graph: str, text: str) -> None:
        """Runs a query that writes, as others than the executor might."""

    def store(self, policy: GraphPolicy) -> GraphStore:
        """Returns the executor's store over it; `aclose` ends it."""

    async def aclose(self) -> None:
        """Ends its connections."""


class FalkorGraphs:
    """Graphs of a FalkorDB."""

    one_graph = False

    def __init__(self, server: FalkorServer) -> None:
        self.url = server.url
        self._falkor = Falkor(server.url, ca=None, connections=2, wait_s=5, timeout_ms=TIMEOUT_MS)

    async def new_graph(self, *, tenant: str = "") -> str:
        """Returns the name of a graph that is not there yet."""
        return f"signalbox:{tenant}" if tenant else f"g{uuid4().hex}"

    async def rows(self, graph: str, text: str) -> list[list[Any]]:
        """Runs a query that only reads."""
        found: list[list[Any]] = (await self._falkor.read(graph, text, {})).result_set
        return found

    async def write(self, graph: str, text: str) -> None:
        """Runs a query that writes."""
        await self._falkor.query(graph, text, {})

    def store(self, policy: GraphPolicy) -> FalkorStore:
        """Returns a store on the same connections."""
        return FalkorStore(self._falkor, policy)

    async def aclose(self) -> None:
        """Ends its connections."""
        await self._falkor.aclose()


class BoltGraphs:
    """Graphs of a server that speaks Bolt."""

    def __init__(self, server: ArcadeServer | OwnServer) -> None:
        self.one_graph = server.one_database
        self.url = server.url
        self._server = server
        self._clients: list[Bolt] = []
        self._bolt = self._client()

    def _client(self) -> Bolt:
        client = Bolt(self.url, ca=None, connections=2, wait_s=5, timeout_ms=TIMEOUT_MS)
        self._clients.append(client)
        return client

    async def new_graph(self, *, tenant: str = "") -> str:
        """Makes a database."""
        graph = f"signalbox:{tenant}" if tenant else f"g{uuid4().hex}"
        made = await asyncio.to_thread(self._server.make, database_of(graph))
        return made if self.one_graph else graph

    async def empty(self, graph: str) -> None:
        """Takes all out of a graph, the records of calls too."""
        await self.write(graph, "MATCH (n) DETACH DELETE n")

    async def rows(self, graph: str, text: str) -> list[list[Any]]:
        """Runs a query in a transaction that is not committed."""

        async def work(transaction: Any) -> list[list[Any]]:
            found: list[list[Any]] = await transaction.rows(text, {})
            return found

        return await self._bolt.read(database_of(graph), work)

    async def write(self, graph: str, text: str) -> None:
        """Runs a query that writes."""

        async def work(transaction: Any) -> None:
            await transaction.rows(text, {})

        await self._bolt.write(database_of(graph), work)

    def store(self, policy: GraphPolicy) -> BoltStore:
        """Returns a store as another replica has it: writers of one client wait for each other before the server."""
        return BoltStore(self._client(), policy)

    async def aclose(self) -> None:
        """Ends its connections."""
        for client in self._clients:
            await client.aclose()
