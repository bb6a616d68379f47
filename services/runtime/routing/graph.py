"""Graphs whose edges are routers: every node is wrapped once, so that no agent can forget to record a decision."""

from __future__ import annotations

import math
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from signalbox_routing.table import END, Decision, Router, State, StateUpdate

from services.kit.errors import SignalboxError
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import ATTRIBUTE_PREFIX, DECISION_ID, NODE
from services.kit.telemetry.tracing import carrying, tracer
from services.runtime.errors import (
    BudgetSpent,
    ClaimLost,
    DatabaseAway,
    DependencyAway,
    NodeTimedOut,
    QuestionNotAllowed,
    RouterFailed,
    StatusForgotten,
)
from services.runtime.routing.attempt import Attempt, cost_of
from services.runtime.routing.calls import OK, Allowance, allowing, collecting
from services.runtime.routing.declared import Declaration, project
from services.runtime.routing.digest import digest, outline_of_router, outline_of_type, policy_version
from services.runtime.routing.effects import FREE, Cost, Effect, Outcome
from services.runtime.routing.inner import InnerGraph
from services.runtime.routing.recorder import (
    DecisionRecord,
    DecisionRecorder,
    LeadingDecision,
    last_decision,
    step_record,
)
from services.runtime.routing.run_context import NodeContext, RunContext
from services.runtime.routing.soundness import (
    check_asking,
    check_destinations,
    check_state_type,
    check_status,
    reducers_of,
)
from services.runtime.routing.state import FAILED, IN_PROGRESS, NEEDS_REVIEW, NOTHING_SPENT, STATUS, add_spend
from services.runtime.routing.stopping import RUN_CANCELLED, AttemptLimit, RunStopped
from services.runtime.routing.storable import check_decision, check_state, presentable
from services.runtime.routing.waiting import remembering_away, waited_for

log = get_logger()
NODE_FAILED = "node_failed"
# What ends runs after a node before any table is asked.
BEFORE_TABLES = (NODE_FAILED, RUN_CANCELLED)
BUDGET_EXHAUSTED = "budget_exhausted"
# For what a node does by itself once its calls have been cut at the end of the run's wall time.
CUT_GRACE_S = 2.0
UNFORESEEN = "an internal error; see the run's trace"
# Of a state and a NodeContext; before them its nodes, while those have no services.
Node = Callable[..., Awaitable[StateUpdate]]
Ids = Mapping[str, Callable[[State], str]]


@dataclass(frozen=True)
class RoutedNode:
    """A node and where it leads: by a router, or always to one place.

    `inner` is the graph that the node runs, if there is one: its steps are checkpointed under the node. `failed` says
    what a failure comes to in state, for the router to decide on; where it returns None, the run ends by `node_failed`.
    `concludes` says that the node sets the status of a run that ends after it. `acts` says that it has effects: such a
    node, and no other, gets tokens for tools that write, and it gets no model. `asks` says that it asks a person: only
    such a node may, once, and it does nothing else, since it runs again from its start with the answer.

    `outcomes` are what it may change of the facts that routers read; one that changes anything else has failed. None is
    a node that nothing is known of, and no agent's. `cost` is what a visit costs at most.
    """

    name: str
    run: Node
    router: Router[Any, Any] | None = None
    then: str = END
    inner: InnerGraph | None = None
    failed: Callable[[Exception], StateUpdate | None] | None = None
    concludes: bool = False
    outcomes: tuple[Outcome, ...] | None = None
    cost: Cost = FREE
    acts: bool = False
    asks: bool = False

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


def router_after(agent: str, node: RoutedNode) -> str:
    """Returns the name under which what comes after a node is recorded, also where no table decides it."""
    return node.router.name if node.router else f"{agent}.route_after_{node.name}"


@dataclass(frozen=True)
class AgentGraph:
    """An agent: its nodes, and the routers between them.

    `node_timeout_s` is how long an attempt at a node may take, with all that it calls; waits are outside of it.
    """

    name: str
    state: type
    entry: str
    nodes: tuple[RoutedNode, ...]
    tools: frozenset[str] = field(default_factory=frozenset)
    # Facts that come with the input.
    given: tuple[Effect, ...] = ()
    # The routers bound an agent's loops by rules; this only stops a graph whose rules do not. Limits as high as a proof
    # can be had for come to less.
    max_steps: int = 2000
    node_timeout_s: float = 600.0
    # What a failed node, with its message, changes in state beyond what it does for every agent.
    when_failed: Callable[[str], StateUpdate] | None = None

    @cached_property
    def version(self) -> str:
        """A digest of nodes, state and tables, which runs record: the same graph, the same version."""
        nodes = {node.name: _outline_of_node(node) for node in self.nodes}
        return digest([self.name, self.entry, nodes, outline_of_type(self.state)])

    @property
    def tables(self) -> tuple[tuple[str, Router[Any, Any]], ...]:
        """The agent's routers in node order, each with the node that it follows."""
        return tuple((node.name, node.router) for node in self.nodes if node.router is not None)

    @property
    def routers(self) -> tuple[Router[Any, Any], ...]:
        """The agent's routers, in node order."""
        return tuple(router for _, router in self.tables)

    def check(self) -> None:
        """Raises InvalidGraphError for what would only show when a run comes to it."""
        check_state_type(self.name, self.state)
        check_destinations(self.name, self.entry, {node.name: node.destinations for node in self.nodes})
        for node in self.nodes:
            check_asking(
                self.name, node.name, asks=node.asks, more=node.acts or node.inner is not None or node.cost != FREE
            )
            if not node.concludes:
                check_status(self.name, node.name, node.router, node.then)

    def compile(self, ids: Ids | None = None, prompts: str = "") -> CompiledStateGraph[Any, RunContext, Any, Any]:
        """Builds the LangGraph graph, without a checkpointer; its decisions carry the ids, its models' calls `prompts`.

        Raises InvalidGraphError.
        """
        self.check()
        builder: StateGraph[Any, RunContext, Any, Any] = StateGraph(self.state, context_schema=RunContext)
        recorder = DecisionRecorder(self.name, ids or {})
        reducers = reducers_of(self.state)
        for node in self.nodes:
            step = _Step(node, recorder, reducers, self, prompts)
            builder.add_node(node.name, cast(Any, step.__call__), destinations=node.destinations)
        builder.add_edge(START, self.entry)
        return builder.compile(name=self.name)


def _outline_of_node(node: RoutedNode) -> list[Any]:
    inner = node.inner
    inside = [sorted(inner.nodes), outline_of_type(inner.state)] if inner else []
    return [outline_of_router(node.router) if node.router else node.then, *inside]


class _Step:
    """A node as LangGraph runs it: the node itself, then the decision, in one superstep."""

    def __init__(
        self,
        node: RoutedNode,
        recorder: DecisionRecorder,
        reducers: Mapping[str, Callable[[Any, Any], Any]],
        graph: AgentGraph,
        prompts: str,
    ) -> None:
        self._node = node
        self._prompts = prompts
        self._recorder = recorder
        self._reducers = reducers
        self._router_name = router_after(graph.name, node)
        self._policy_version = policy_version(node.router.policy) if node.router else ""
        self._timeout_s = graph.node_timeout_s
        self._when_failed = graph.when_failed
        self._declaration = (
            None if node.outcomes is None else Declaration(node.name, node.outcomes, graph.routers, reducers)
        )

    async def __call__(self, state: dict[str, Any], runtime: Runtime[RunContext]) -> Command[Any]:
        """Runs the node in the context of the decision that led to it, and routes on what it changed.

        Raises RunWaits when the node has to run again later.
        """
        # The config's own `checkpoint_id` is unset inside nodes.
        checkpoint_id = runtime.execution_info.checkpoint_id if runtime.execution_info else ""
        before = list(runtime.context.attempts)
        led_by = _led_by(state, runtime.context)
        token = context.attach(_caused_by(led_by))
        try:
            with (
                collecting(acts=self._node.acts, prompts=self._prompts) as calls,
                remembering_away(before),
                tracer().start_as_current_span(
                    f"node {self._node.name}", attributes={ATTRIBUTE_PREFIX + NODE: self._node.name}
                ),
            ):
                attempt = Attempt(state, before, calls)
                node_context = NodeContext(
                    runtime.context.of_node(acts=self._node.acts), checkpoint_id, led_by["rule"] if led_by else ""
                )
                update, decision = await self._decided(attempt, node_context)
        finally:
            context.detach(token)
        # From here on it is this step's; a later node of this claim begins anew.
        runtime.context.end_beginning()
        destination = decision.destination if decision else self._node.then
        recorded = None
        if decision:
            update = _merge(update, decision.update, self._reducers)
            recorded = self._recorded(decision, state, node_context)
        elapsed_s = update["spend"]["wall_time_s"]
        concludes = destination == END
        if concludes:
            led = led_by["rule"] if led_by else self._node.name
            update = _with_stop_reason(state, update, decision.rule if decision else led)
        update["steps"] = [step_record(self._node.name, elapsed_s, [*before, *calls], recorded, concludes=concludes)]
        return Command(update=update, goto=destination)

    async def _decided(self, attempt: Attempt, node_context: NodeContext) -> tuple[StateUpdate, Decision | None]:
        """Returns what the node changed, its cost included, and the decision; a failure anywhere is a decision too."""
        try:
            update, failure = await self._run(attempt, node_context)
        except RunStopped as stopped:
            self._tell_broken_off(stopped, attempt, node_context)
            raise
        attempt.end()
        spent = add_spend(update.get("spend"), attempt.cost)
        try:
            decision = failure or self._routed(attempt.state, {**update, "spend": spent}, node_context.led_by)
            if decision:
                check_decision(decision)
            check_state({**update, **(decision.update if decision else {})})
            self._check_status(attempt.state, update, decision)
        except SignalboxError as error:
            log.exception("node failed", node=self._node.name)
            # Its update may be what is wrong: none of it is kept, and so the run can be looked at.
            update, decision = {}, self._failure(error)
        return {**update, "spend": spent}, decision

    def _check_status(self, state: State, update: StateUpdate, decision: Decision | None) -> None:
        if (decision.destination if decision else self._node.then) != END:
            return
        if {STATUS: state.get(STATUS), **update, **(decision.update if decision else {})}[STATUS] == IN_PROGRESS:
            raise StatusForgotten(f"the run ended after the node {self._node.name!r}, which did not say how")

    async def _run(self, attempt: Attempt, node_context: NodeContext) -> tuple[StateUpdate, Decision | None]:
        spend = add_spend(attempt.state.get("spend"), cost_of(attempt.before))
        given = {**attempt.state, "spend": spend} if attempt.before else attempt.state
        budget = attempt.state.get("budget")
        allowance = Allowance(spend, budget) if budget else None
        # One that begins when no time is left makes no calls, and only says how the run ended.
        left_s = allowance.left_s if allowance else math.inf
        timeout_s = min(self._timeout_s, left_s + CUT_GRACE_S) if left_s > 0 else self._timeout_s
        limit = AttemptLimit(node_context.run.stop, timeout_s, acts=self._node.acts)
        try:
            with allowing(allowance):
                async with limit:
                    return await self._node.run(given, node_context), None
        except (GraphBubbleUp, ClaimLost, DatabaseAway) as left:
            if isinstance(left, GraphInterrupt) and (wrong := self._unfit_to_ask(attempt, node_context.run)):
                return self._failed(wrong)
            # The last two come from the steps of a graph inside the node; they are no failure of the run.
            raise
        except DependencyAway as away:
            if waits := attempt.wait(away):
                raise waits from away
            # Nobody goes on from what its own graph has saved.
            attempt.calls.extend(away.saved_calls)
            return self._failed(away)
        except BudgetSpent as spent:
            return self._cut(attempt, spent)
        except TimeoutError as error:
            if limit.expired and timeout_s < self._timeout_s:
                return self._cut(attempt, BudgetSpent("wall_time_s"))
            if limit.expired:
                return self._failed(
                    NodeTimedOut(f"the node {self._node.name!r} did not end within {self._timeout_s:g} s")
                )
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - the run boundary: a failed node becomes a failed run, by a decision
            return self._failed(error)

    def _tell_broken_off(self, stopped: RunStopped, attempt: Attempt, node_context: NodeContext) -> None:
        """Says what the node has cost that was broken off, and that its run is to stop as what led nowhere from it."""
        log.info("node broken off", node=self._node.name)
        attempt.end()
        to_its_end = Decision(RUN_CANCELLED, END, {}, grounds={}, rejected=(), facts={})
        decision = self._recorded(to_its_end, attempt.state, node_context)
        calls = [*attempt.before, *attempt.calls]
        stopped.step = step_record(self._node.name, attempt.cost["wall_time_s"], calls, decision, concludes=False)
        stopped.spend = add_spend(attempt.state.get("spend"), attempt.cost)

    def _recorded(self, decision: Decision, state: State, node_context: NodeContext) -> DecisionRecord:
        return self._recorder.record(
            decision_id=_decision_id(node_context.run.run_id, node_context.checkpoint_id, self._node.name),
            router=self._router_name,
            policy_version=self._policy_version,
            node=self._node.name,
            decision=decision,
            state=state,
        )

    def _cut(self, attempt: Attempt, spent: BudgetSpent) -> tuple[StateUpdate, Decision | None]:
        """Returns what a node comes to that the run's budget ended: by its table's rule for that, if there is one."""
        log.info("node cut", node=self._node.name, limit=spent.limit)
        away = waited_for(attempt.before) if spent.limit == "wall_time_s" else None
        if away and not any(call["outcome"] == OK for call in attempt.calls):
            # The time that was left did not do for another try: it is the outage that the run ends by.
            return self._failed(away)
        if (update := self._node.failed(spent) if self._node.failed else None) is not None:
            return update, None
        attempt.end()
        if self._node.router:
            spend = add_spend(attempt.state.get("spend") or NOTHING_SPENT, attempt.cost)
            decision = self._decide(self._node.router, {**attempt.state, "spend": spend})
            if decision.rule == BUDGET_EXHAUSTED:
                return {}, decision
        decision = _failure(spent)
        return {}, replace(
            decision, update={**decision.update, "status": NEEDS_REVIEW, "stop_reason": BUDGET_EXHAUSTED}
        )

    def _unfit_to_ask(self, attempt: Attempt, run: RunContext) -> QuestionNotAllowed | None:
        """Returns why a question can't be asked by this node, if it can't: what it has done by then is charged now."""
        name = self._node.name
        if not self._node.asks:
            return QuestionNotAllowed(f"the node {name!r} asks a person, and does not say that it does (asks=True)")
        if attempt.calls:
            return QuestionNotAllowed(
                f"the node {name!r} called {attempt.calls[0]['name']!r} before it asked a person, and would again "
                "with the answer: let a node before it call"
            )
        if run.answered:
            return QuestionNotAllowed(
                f"the node {name!r} asks a person twice: let another node ask the second question"
            )
        return None

    def _failed(self, error: Exception) -> tuple[StateUpdate, Decision | None]:
        log.error("node failed", node=self._node.name, exc_info=error)
        update = self._node.failed(error) if self._node.failed else None
        return (update, None) if update is not None else ({}, self._failure(error))

    def _failure(self, error: Exception) -> Decision:
        decision = _failure(error)
        more = self._when_failed(decision.update["error"]) if self._when_failed else {}
        return replace(decision, update={**more, **decision.update})

    def _routed(self, before: State, update: StateUpdate, led_by: str) -> Decision | None:
        """Decides on what the node changed, once that is what it declares."""
        if self._declaration:
            self._declaration.check(before, update, led_by)
        if self._node.router is None:
            return None
        state = project(before, update, self._reducers)
        decision = self._decide(self._node.router, state)
        if self._declaration and decision.update:
            self._declaration.check_rule(state, decision.rule, decision.update)
        return decision

    def _decide(self, router: Router[Any, Any], state: State) -> Decision:
        try:
            return router.decide(state)
        except Exception as error:  # the run boundary, as for nodes
            raise RouterFailed(
                f"the router {router.name} raised {type(error).__name__}; see the run's trace"
            ) from error


def _failure(error: Exception) -> Decision:
    reason = error.reason if isinstance(error, SignalboxError) else type(error).__name__
    message = presentable(error.message) if isinstance(error, SignalboxError) else UNFORESEEN
    facts = {"error_reason": reason}
    if isinstance(error, DependencyAway):
        facts |= {"dependency": error.dependency, "cause": error.cause}
    update = {"error": message, "status": FAILED, "stop_reason": NODE_FAILED}
    return Decision(NODE_FAILED, END, update, grounds=facts, rejected=(), facts=facts)


def _with_stop_reason(state: State, update: StateUpdate, rule: str) -> StateUpdate:
    """Returns the update of a run's last step: one that ends short of its answer says by which rule it came to that."""
    ended = {**state, **update}
    if ended.get(STATUS) not in (FAILED, NEEDS_REVIEW) or ended.get("stop_reason"):
        return update
    return {**update, "stop_reason": rule}


def _merge(update: StateUpdate, more: StateUpdate, reducers: Mapping[str, Callable[[Any, Any], Any]]) -> StateUpdate:
    merged = dict(update)
    for name, value in more.items():
        both = name in update and name in reducers
        merged[name] = reducers[name](update[name], value) if both else value
    return merged


def _decision_id(run_id: str, checkpoint_id: str, node: str) -> str:
    # The same for a node that is run again after a crash, so that what it caused the first time can be told apart.
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{checkpoint_id}/{node}").hex


def _led_by(state: State, run: RunContext) -> LeadingDecision | None:
    """Returns the decision that led to the node that runs, be it of this claim or of one before it."""
    return last_decision(state.get("steps") or []) or next(iter(run.led_by), None)


def _caused_by(decision: LeadingDecision | None) -> context.Context:
    """Returns the context of a node: a child of the decision that led to it, whose id travels in baggage."""
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
