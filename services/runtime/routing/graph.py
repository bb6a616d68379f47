"""Graphs whose edges are routers: every node is wrapped once, so that no agent can forget to record a decision."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_type_hints

from langgraph.errors import GraphBubbleUp
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from services.kit.errors import SignalboxError
from services.kit.logs import get_logger
from services.kit.names import ATTRIBUTE_PREFIX, DECISION_ID, NODE
from services.kit.telemetry import carrying, tracer
from services.runtime.errors import ClaimLost, DatabaseAway
from services.runtime.routing.calls import collecting
from services.runtime.routing.recorder import Recorder, StepRecord, step_record
from services.runtime.routing.state import FAILED, add_spend, spend_of
from services.runtime.routing.table import END, Router, State, StateUpdate, Verdict
from services.runtime.run_context import NodeContext, RunContext

log = get_logger()
NODE_FAILED = "node_failed"
Node = Callable[[Any, NodeContext], Awaitable[StateUpdate]]


@dataclass(frozen=True)
class RoutedNode:
    """A node and where it leads: by a router, or always to one place.

    `inner` is the graph that the node runs, if there is one: its steps are checkpointed under the node.
    """

    name: str
    run: Node
    router: Router[Any, Any] | None = None
    then: str = END
    inner: CompiledStateGraph[Any, Any, Any, Any] | None = None

    @property
    def destinations(self) -> dict[str, str]:
        """Label of each edge by destination, for drawing."""
        edges = (
            {self.then: "always"}
            if self.router is None
            else {to: " | ".join(rules) for to, rules in self.router.destinations.items()}
        )
        edges[END] = " | ".join(filter(None, [edges.get(END, ""), NODE_FAILED]))
        return edges


@dataclass(frozen=True)
class AgentGraph:
    """An agent: its nodes, the routers between them, and the version its runs record."""

    name: str
    version: str
    state: type
    entry: str
    nodes: tuple[RoutedNode, ...]
    tools: frozenset[str] = field(default_factory=frozenset)
    # The routers bound an agent's loops by rules; this only stops a graph whose rules do not.
    max_steps: int = 400

    @property
    def routers(self) -> tuple[Router[Any, Any], ...]:
        """The agent's routers, in node order."""
        return tuple(node.router for node in self.nodes if node.router is not None)

    def compile(self) -> CompiledStateGraph[Any, RunContext, Any, Any]:
        """Builds the LangGraph graph, without a checkpointer."""
        builder: StateGraph[Any, RunContext, Any, Any] = StateGraph(self.state, context_schema=RunContext)
        recorder = Recorder(self.name)
        reducers = reducers_of(self.state)
        for node in self.nodes:
            step = _Step(node, recorder, reducers, self.name)
            builder.add_node(node.name, cast(Any, step.__call__), destinations=node.destinations)
        builder.add_edge(START, self.entry)
        return builder.compile(name=self.name)


def reducers_of(state: type) -> dict[str, Callable[[Any, Any], Any]]:
    """Returns the reducer of each state field that has one."""
    found = {}
    for name, hint in get_type_hints(state, include_extras=True).items():
        metadata = getattr(hint, "__metadata__", ())
        if metadata and callable(metadata[-1]) and not isinstance(metadata[-1], type):
            found[name] = metadata[-1]
    return found


class _Step:
    """A node as LangGraph runs it: the node itself, then the decision, in one superstep."""

    def __init__(
        self, node: RoutedNode, recorder: Recorder, reducers: Mapping[str, Callable[[Any, Any], Any]], agent: str
    ) -> None:
        self._node = node
        self._recorder = recorder
        self._reducers = reducers
        self._router_name = node.router.name if node.router else f"{agent}.route_after_{node.name}"
        self._policy_version = node.router.policy_version if node.router else ""

    async def __call__(self, state: dict[str, Any], runtime: Runtime[RunContext]) -> Command[Any]:
        """Runs the node in the context of the decision that led to it, and routes on what it changed."""
        started = time.perf_counter()
        # The config's own `checkpoint_id` is unset inside nodes.
        checkpoint_id = runtime.execution_info.checkpoint_id if runtime.execution_info else ""
        cause = _cause(state)
        token = context.attach(cause)
        try:
            with (
                collecting() as calls,
                tracer().start_as_current_span(
                    f"node {self._node.name}", attributes={ATTRIBUTE_PREFIX + NODE: self._node.name}
                ),
            ):
                update, failure = await self._run(state, NodeContext(runtime.context, checkpoint_id))
        finally:
            context.detach(token)
        spend = add_spend(update.get("spend"), spend_of(calls, time.perf_counter() - started))
        update = {**update, "spend": spend}
        verdict = failure or self._decide(project(state, update, self._reducers))
        destination = verdict.destination if verdict else self._node.then
        decision = None
        if verdict:
            update = _merge(update, verdict.update, self._reducers)
            decision = self._recorder.record(
                decision_id=_decision_id(runtime.context.run_id, checkpoint_id, self._node.name),
                router=self._router_name,
                policy_version=self._policy_version,
                node=self._node.name,
                verdict=verdict,
            )
        update["steps"] = [step_record(self._node.name, started, calls, decision)]
        return Command(update=update, goto=destination)

    async def _run(self, state: State, node_context: NodeContext) -> tuple[StateUpdate, Verdict | None]:
        try:
            return await self._node.run(state, node_context), None
        except (GraphBubbleUp, ClaimLost, DatabaseAway):
            # The last two come from the steps of a graph inside the node; they are no failure of the run.
            raise
        except Exception as error:  # the run boundary: a failed node becomes a failed run, by a decision
            log.exception("node failed", node=self._node.name)
            return {}, _failure(error)

    def _decide(self, state: State) -> Verdict | None:
        return self._node.router.decide(state) if self._node.router else None


def _failure(error: Exception) -> Verdict:
    reason = error.reason if isinstance(error, SignalboxError) else type(error).__name__
    message = error.message if isinstance(error, SignalboxError) else "an internal error; see the run's trace"
    facts = {"error_reason": reason}
    update = {"error": message, "status": FAILED, "stop_reason": NODE_FAILED}
    return Verdict(NODE_FAILED, END, update, grounds=facts, rejected=(), facts=facts)


def project(state: State, update: StateUpdate, reducers: Mapping[str, Callable[[Any, Any], Any]]) -> dict[str, Any]:
    """Returns the state as it will be once the update is applied, for the router that decides in the same superstep."""
    applied = dict(state)
    for name, value in update.items():
        reduce = reducers.get(name)
        applied[name] = reduce(state[name], value) if reduce and name in state else value
    return applied


def _merge(update: StateUpdate, more: StateUpdate, reducers: Mapping[str, Callable[[Any, Any], Any]]) -> StateUpdate:
    merged = dict(update)
    for name, value in more.items():
        both = name in update and name in reducers
        merged[name] = reducers[name](update[name], value) if both else value
    return merged


def _decision_id(run_id: str, checkpoint_id: str, node: str) -> str:
    # The same for a node that is run again after a crash, so that what it caused the first time can be told apart.
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{checkpoint_id}/{node}").hex


def _cause(state: State) -> context.Context:
    """Returns the context of a node: a child of the decision that led to it, whose id travels in baggage."""
    steps: list[StepRecord] = state.get("steps") or []
    decision = next((step["decision"] for step in reversed(steps) if step["decision"]), None)
    if decision is None:
        return context.get_current()
    carried = carrying({DECISION_ID: decision["decision_id"]})
    if not decision["span_id"]:
        return carried
    sampled = trace.get_current_span().get_span_context().trace_flags
    parent = SpanContext(
        int(decision["trace_id"], 16), int(decision["span_id"], 16), is_remote=True, trace_flags=TraceFlags(sampled)
    )
    return trace.set_span_in_context(NonRecordingSpan(parent), carried)
