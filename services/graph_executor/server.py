"""Composition root of the graph executor."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import tools_pb2_grpc

from services.graph_executor.arguments import ToolArguments
from services.graph_executor.bolt import Bolt
from services.graph_executor.bolt_store import BoltStore
from services.graph_executor.callers_graph import CallersGraph
from services.graph_executor.cypher_tool import schema_summary
from services.graph_executor.errors import GraphAway, GraphForbidden, GraphFull
from services.graph_executor.falkor import Falkor
from services.graph_executor.falkor_store import FalkorStore, server_bounds
from services.graph_executor.graphs import GraphJournal, Graphs
from services.graph_executor.measured_store import MeasuredStore
from services.graph_executor.metrics import CONNECTIONS_MAX
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.reading_tools import ChangesTool, PreviewTool, SearchTool
from services.graph_executor.settings import GraphExecutorSettings
from services.graph_executor.store import GraphStore
from services.graph_executor.writing_tools import ChangingTool, CypherTool, UndoTool
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.telemetry.names import AUDIENCE_GRAPH_EXECUTOR
from services.kit.text.policy_file import PolicyFileError, load_policy_file
from services.kit.tools.effects import WritingToolExecutor
from services.kit.tools.executor import SERVICE_NAME, ToolRefused
from services.kit.tools.names import (
    ADD_EDGE,
    ADD_NODE,
    DELETE_EDGE,
    DELETE_NODE,
    UPDATE_PROPS,
)
from services.kit.wire.needs import needed, needed_text
from services.kit.wire.server import Registration, Service

FOR_PLATFORM = (ChangesTool.name, PreviewTool.name, UndoTool.name)


async def build(settings: GraphExecutorSettings, stack: AsyncExitStack) -> Service:
    """Builds the service once the graph database is there; exits with a message if the policy is wrong."""
    try:
        policy = load_policy_file(settings.graph_policy, GraphPolicy)
        store = await _store(settings, policy, stack)
        verifier = RunTokenVerifier(await needed_text(settings.run_token_public_key_file), AUDIENCE_GRAPH_EXECUTOR)
    except (PolicyFileError, ToolRefused, GraphForbidden, OSError) as error:
        raise SystemExit(f"graph_executor does not start: {error}") from error
    servicer = make_servicer(settings, policy, store, verifier)
    return Service([Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)])


def make_servicer(
    settings: GraphExecutorSettings,
    policy: GraphPolicy,
    store: GraphStore,
    verifier: RunTokenVerifier,
) -> WritingToolExecutor:
    """Wires the tools over a store."""
    arguments = ToolArguments(policy)
    graphs = Graphs(settings.graph_name, settings.graph_claim)
    graph = CallersGraph(policy, graphs, store)
    cypher = CypherTool(arguments.cypher_query, graph)
    changing = [
        ChangingTool(name, description, getattr(arguments, name), graph) for name, description in _DESCRIPTIONS.items()
    ]
    return WritingToolExecutor(
        [
            SearchTool(arguments.query_graph, graph, schema_summary(graph)),
            cypher,
            ChangesTool(arguments.read_changes, graph),
            PreviewTool(arguments, graph, cypher),
        ],
        [*changing, cypher, UndoTool(arguments.undo_change, graph)],
        GraphJournal(graphs, store),
        verifier,
        for_platform=FOR_PLATFORM,
    )


async def _store(settings: GraphExecutorSettings, policy: GraphPolicy, stack: AsyncExitStack) -> GraphStore:
    store = (_bolt_store if settings.speaks_bolt else _falkor_store)(settings, policy, stack)
    await needed("the graph database", store.reach, absent=(GraphAway, GraphFull))
    CONNECTIONS_MAX.set(settings.graph_connections)
    return MeasuredStore(store)


def _bolt_store(settings: GraphExecutorSettings, policy: GraphPolicy, stack: AsyncExitStack) -> BoltStore:
    bolt = Bolt(
        settings.graph_url.get_secret_value(),
        ca=settings.graph_ca,
        connections=settings.graph_connections,
        wait_s=settings.graph_wait_s,
        timeout_ms=policy.limits.timeout_ms,
    )
    stack.push_async_callback(bolt.aclose)
    return BoltStore(bolt, policy)


def _falkor_store(settings: GraphExecutorSettings, policy: GraphPolicy, stack: AsyncExitStack) -> FalkorStore:
    falkor = Falkor(
        settings.graph_url.get_secret_value(),
        ca=settings.graph_ca,
        connections=settings.graph_connections,
        wait_s=settings.graph_wait_s,
        timeout_ms=policy.limits.timeout_ms,
        bounds=server_bounds(policy.limits),
        ends_overdue=settings.graph_end_overdue,
    )
    stack.push_async_callback(falkor.aclose)
    return FalkorStore(falkor, policy)


_DESCRIPTIONS = {
    ADD_NODE: "Adds a node, known by its label and key. One that is there already stays as it is, and that is said.",
    ADD_EDGE: "Adds an edge between two nodes. One that is there already stays as it is, and that is said.",
    UPDATE_PROPS: "Sets and removes properties of a node or an edge; the others stay.",
    DELETE_NODE: "Deletes a node; if it has edges, only when that is asked for.",
    DELETE_EDGE: "Deletes an edge.",
}
