"""A graph executor over gRPC, on a graph database of either kind, and a world of tickets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from google.protobuf import json_format
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from services.graph_executor.server import build
from services.graph_executor.settings import GraphExecutorSettings
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_GRAPH_EXECUTOR
from services.kit.wire.server import running
from tests.fixtures.bolt_server import ArcadeServer, OwnServer, bolt_server, missing_for_bolt
from tests.fixtures.graph_database import graph_database
from tests.integration.graph_executor.graph_servers import BoltGraphs, FalkorGraphs, GraphServer

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

POLICY = """
version: 1
labels:
  Ticket:
    properties:
      summary: {type: string}
      status: {type: string, values: [open, in progress, closed]}
      points: {type: integer}
      weight: {type: number}
      urgent: {type: boolean}
      tags: {type: strings}
  User: {properties: {name: {type: string}}, required: []}
  Secret: {properties: {text: {type: string}}, required: [text]}
edges:
  REPORTS: {from: [User], to: [Ticket], properties: {since: {type: integer}}}
  BLOCKS: {from: [Ticket], to: [Ticket]}
  KNOWS: {from: [User, Secret], to: [Secret]}
roles:
  "*": {read: [Ticket, User], write: [Ticket, User]}
  reader: {read: "*"}
  keeper: {read: "*", write: "*"}
  graph_writer: {write: "*"}
"""
TOOLS = frozenset(
    {
        "add_node", "add_edge", "update_props", "delete_node", "delete_edge", "query_graph", "cypher_query",
        "undo_change", "read_changes", "preview_changes",
    }
)  # fmt: skip
KEEPER = Caller("27", frozenset({"keeper"}), {"tenant": "north"})
WRITER = Caller("27", frozenset({"graph_writer"}), {"tenant": "north"})
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    reason: str = ""
    message: str = ""
    retryable: bool = False


@dataclass(frozen=True)
class Executor:
    """The executor as a run sees it; each call is an operation of its own."""

    stub: ToolExecutorServiceAsyncStub
    keys: KeyPair
    run_id: str
    caller: Caller = KEEPER
    # Where the graph's name is not a claim's.
    graph: str = ""

    def by(self, caller: Caller) -> Executor:
        """Another caller's run."""
        return replace(self, caller=caller, run_id=str(uuid4()))

    def new_run(self) -> Executor:
        """Another run of the caller."""
        return replace(self, run_id=str(uuid4()))

    def token(self, **claims: Any) -> str:
        """Returns a run token."""
        said = {
            "caller": self.caller, "run_id": self.run_id, "agent": "graph_editor", "tools": TOOLS, "epoch": 1,
            "writes": True,
        }  # fmt: skip
        minter = RunTokenMinter(self.keys.private_pem, ttl_s=600)
        return minter.mint(RunClaims(**{**said, **claims}), AUDIENCE_GRAPH_EXECUTOR)

    async def call_raw(
        self, tool: str, arguments: Mapping[str, Any], *, operation: str = "", **claims: Any
    ) -> tools_pb2.CallToolResponse:
        """Calls a tool and returns the response."""
        key = tools_pb2.IdempotencyKey(
            run_id=self.run_id, checkpoint_id="checkpoint-1", tool_call_id=operation or str(uuid4())
        )
        request = tools_pb2.CallToolRequest(tool=tool, idempotency_key=key, epoch=claims.get("epoch", 1))
        request.arguments.update(arguments)
        metadata = (bearer_metadata(self.token(**claims)),)
        return await self.stub.CallTool(request, metadata=metadata, timeout=TIMEOUT_S)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Answer:
        """Calls a tool."""
        operation = named.pop("operation", "")
        response = await self.call_raw(tool, {**(arguments or {}), **named}, operation=operation)
        if response.HasField("error"):
            error = response.error
            return Answer(reason=error.reason, message=error.message, retryable=error.retryable)
        output = response.output
        return Answer(output.text, json_format.MessageToDict(output.data), output.truncated)


@pytest.fixture(scope="session")
def bolt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArcadeServer | OwnServer]:
    """A server that speaks Bolt, for all tests."""
    if missing := missing_for_bolt():
        pytest.skip(missing)
    with bolt_server(tmp_path_factory.mktemp("bolt")) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["falkordb", "bolt"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[GraphServer]:
    """A graph database for a module: each of those that there are adapters for, in turn."""
    async with AsyncExitStack() as stack:
        made: GraphServer
        if request.param == "falkordb":
            made = FalkorGraphs(await stack.enter_async_context(graph_database()))
        else:
            made = BoltGraphs(request.getfixturevalue("bolt"))
        stack.push_async_callback(made.aclose)
        yield made


@asynccontextmanager
async def serving(url: str, directory: Path, keys: KeyPair, **settings: Any) -> AsyncIterator[Executor]:
    """An executor in this process."""
    key_file, policy_file = directory / "run_token.pem", directory / "graph_policy.yaml"
    key_file.write_text(keys.public_pem, encoding="ascii")
    policy_file.write_text(settings.pop("policy", POLICY), encoding="utf-8")
    # The runtime repeats a call that goes with a connection that is given up; the channel here repeats none.
    chosen = GraphExecutorSettings(
        **{
            "graph_url": url, "graph_policy": policy_file, "run_token_public_key_file": key_file,
            "shutdown_grace_s": 1, "max_connection_age_s": 86_400, "graph_claim": "tenant", **settings,
        }
    )  # fmt: skip
    async with (
        running("graph_executor", chosen, build) as served,
        grpc.aio.insecure_channel(served.address) as channel,
    ):
        yield Executor(tools_pb2_grpc.ToolExecutorServiceStub(channel), keys, str(uuid4()))


@pytest_asyncio.fixture(loop_scope="module")
async def executor(server: GraphServer, tmp_path: Path) -> AsyncIterator[Executor]:
    """An executor on a graph that is new."""
    graph = await server.new_graph()
    async with serving(server.url, tmp_path, generate_keypair(), graph_claim="", graph_name=graph) as made:
        yield replace(made, graph=graph)
