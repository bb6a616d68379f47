"""The graph executor keeps the contract of every executor that writes: two replicas, and processes that die."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import pytest_asyncio
from signalbox.v1 import tools_pb2_grpc

from services.graph_executor.records import RESULT_LABEL
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.kit.telemetry.names import AUDIENCE_GRAPH_EXECUTOR
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from tests.contract.executor_conformance import WritingExecutorContract
from tests.contract.executor_subject import Sample, Subject
from tests.fixtures.stack import FORKS
from tests.integration.graph_executor.conftest import serving
from tests.integration.graph_executor.graph_servers import BoltGraphs, GraphServer

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

CALLER = Caller("27", frozenset({"graph_writer"}))


EDGE: dict[str, Any] = {"type": "REPORTS", "from": {"label": "User", "key": "u"}, "to": {"label": "Ticket", "key": "t"}}
READING = Sample("query_graph", {"label": "Ticket"})


@asynccontextmanager
async def graph_subject(server: GraphServer, directory: Path, counted: str, writing: Sample) -> AsyncIterator[Subject]:
    """Two replicas on one graph; effects are what the Cypher `counted` counts."""
    keys, graph = generate_keypair(), await server.new_graph()

    async def effects() -> int:
        [[count]] = await server.rows(graph, counted)
        return int(count)

    @asynccontextmanager
    async def mortal(die_at: int) -> AsyncIterator[ToolExecutorServiceAsyncStub]:
        env = {
            **inherited_environment(),
            "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(directory / "run_token.pem"),
            "SIGNALBOX_GRAPH_URL": server.url,
            "SIGNALBOX_GRAPH_POLICY": str(directory / "graph_policy.yaml"),
            "SIGNALBOX_GRAPH_NAME": graph,
            "SIGNALBOX_DIE_AT_STEP": str(die_at),
        }
        module = "tests.integration.graph_executor.mortal_executor"
        process = ServiceProcess(Program(f"mortal-{die_at}", ["-P", "-m", module], env), directory, forks=FORKS)
        try:
            ready = await process.start()
            async with grpc.aio.insecure_channel(ready.listen) as channel:
                yield tools_pb2_grpc.ToolExecutorServiceStub(channel)
        finally:
            await process.kill()

    settings = {"graph_claim": "", "graph_name": graph}
    async with (
        serving(server.url, directory, keys, **settings) as here,
        serving(server.url, directory, keys, **settings) as there,
    ):
        executor = here.by(CALLER)
        await executor.call("add_node", EDGE["from"])
        await executor.call("add_node", EDGE["to"])
        yield Subject(
            here.stub,
            keys,
            READING,
            replace(writing, effects=effects),
            caller=CALLER,
            audience=AUDIENCE_GRAPH_EXECUTOR,
            replica=there.stub,
            mortal=mortal,
        )


@pytest.mark.asyncio(loop_scope="module")
class TestWritesByTools(WritingExecutorContract):
    """Tools are idempotent by themselves: how often one was applied is seen by what is kept of it."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def subject(self, server: GraphServer, tmp_path: Path) -> AsyncIterator[Subject]:
        writing = Sample(
            "update_props",
            {"label": "Ticket", "key": "t", "properties": {"points": 1}},
            others={"label": "Ticket", "key": "t", "properties": {"points": 2}},
            failing={"label": "Ticket", "key": "none", "properties": {"points": 2}},
        )
        counted = (
            f"MATCH (kept:{RESULT_LABEL} {{tool: 'update_props'}}) WHERE kept.refused = false RETURN count(kept.key)"
        )
        async with graph_subject(server, tmp_path, counted, writing) as subject:
            # Over Bolt both kinds of writes commit alike, and processes are dear: those of the other kind are killed.
            yield replace(subject, mortal=None) if isinstance(server, BoltGraphs) else subject


@pytest.mark.asyncio(loop_scope="module")
class TestWritesByCypher(WritingExecutorContract):
    """Each call adds an edge: how often one was applied is seen in the graph itself."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def subject(self, server: GraphServer, tmp_path: Path) -> AsyncIterator[Subject]:
        def add(since: int) -> dict[str, object]:
            text = "MATCH (u:User {key: 'u'}), (t:Ticket {key: 't'}) CREATE (u)-[:REPORTS {since: $since}]->(t)"
            return {"query": text, "parameters": {"since": since}, "write": True}

        writing = Sample("cypher_query", add(1), others=add(2), failing={**add(1), "query": "MATCH (n) DELETE n"})
        counted = "MATCH (:User)-[e:REPORTS]->(:Ticket) RETURN count(e.since)"
        async with graph_subject(server, tmp_path, counted, writing) as subject:
            yield subject
