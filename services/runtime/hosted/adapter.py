"""A copy of a graph that records what happens in it: nodes and conditional edges are wrapped, of inner graphs too.

The nodes, the edges and the state stay as they are. Records travel in a channel of a reserved name, which tasks write
to as LangGraph's own edges do, so that they are committed with the step's checkpoint, or not at all.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import run_in_executor
from langgraph._internal._constants import CONF, CONFIG_KEY_READ, CONFIG_KEY_SEND, CONFIG_KEY_TASK_ID
from langgraph._internal._runnable import RunnableCallable
from langgraph.channels import EphemeralValue, Topic
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.graph import END, StateGraph
from langgraph.graph._branch import BranchSpec
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt
from signalbox_routing.table import Decision, Router, UnkeptFactsError, as_returned

from services.kit.errors import SignalboxError
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import ATTRIBUTE_PREFIX, NODE, RUN_ID
from services.kit.telemetry.tracing import tracer
from services.kit.wire.tasks import stop
from services.runtime.calls.recording import current_recording
from services.runtime.errors import ClaimLost, DatabaseAway, NodeTimedOut
from services.runtime.hosted.cached_steps import StepCache
from services.runtime.hosted.callback_events import streamed
from services.runtime.hosted.containment import contained
from services.runtime.hosted.custom_writes import writing_to
from services.runtime.hosted.facts import LONGEST_TEXT, Reads, choice_of_model, facts_of, forget, recorded
from services.runtime.hosted.inner_graphs import anew_unless_begun
from services.runtime.hosted.lifting.lifted import (
    CODE,
    INSIDE,
    LIFTED,
    TABLE,
    LiftedGraph,
    LiftedRouter,
    router_name,
)
from services.runtime.hosted.node_results import NODE as NODE_SOURCE
from services.runtime.hosted.node_results import PATH, answer_of_failure, asked_of_node, record_result
from services.runtime.hosted.path_function import PathFunction
from services.runtime.hosted.session import BudgetSpentError, HostedSession, Visit, current_session
from services.runtime.hosted.source import CodeSource
from services.runtime.routing.digest import policy_version
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.recorder import (
    DecidedRecord,
    DecisionRecord,
    DecisionRecorder,
    DestinationRecord,
    StepRecord,
    step_record,
)
from services.runtime.routing.stopping import RUN_CANCELLED, AttemptLimit, RunStopped
from services.runtime.routing.storable import presentable

log = get_logger()
# No field of a state begins so.
STEPS_CHANNEL: Final = "__signalbox_steps"
# Of a graph that stops after some nodes: which of them ran in the step before.
STOPS_CHANNEL: Final = "__signalbox_stops"
BUDGET_EXHAUSTED: Final = "budget_exhausted"
COMMAND, FAN_OUT = "command", "fan_out"
Graph = CompiledStateGraph[Any, Any, Any, Any]


def adapted(graph: Graph, agent: str, source: CodeSource, lifted: LiftedGraph, serde: SerializerProtocol) -> Graph:
    """Returns a copy of a graph, without a checkpointer, that records what happens while a `HostedSession` is open."""
    return _Adapter(agent, source, DecisionRecorder(agent), lifted, serde).adapted(graph, "", frozenset())


@dataclass(frozen=True)
class _Adapter:
    agent: str
    source: CodeSource
    recorder: DecisionRecorder
    lifted: LiftedGraph
    serde: SerializerProtocol

    def adapted(self, graph: Graph, prefix: str, around: frozenset[str]) -> Graph:
        """Returns a copy of a graph, or of one inside it; `around` are the nodes of the graph that it is a node of."""
        builder: StateGraph[Any, Any, Any, Any] = copy(graph.builder)
        stops = _Stops.of(graph)
        scope = _Scope(frozenset(graph.builder.nodes), around)
        builder.nodes = {
            name: self._node(name, spec, prefix, stops, scope) for name, spec in graph.builder.nodes.items()
        }
        builder.branches = copy(graph.builder.branches)
        for start, branches in graph.builder.branches.items():
            builder.branches[start] = {
                name: self._branch(start, name, branch, prefix, len(branches), scope.nodes)
                for name, branch in branches.items()
            }
        # What the defaults were has been written into the nodes.
        builder._node_defaults = type(builder._node_defaults)()
        made = builder.compile(
            checkpointer=None if graph.checkpointer not in (True, False) else graph.checkpointer,
            cache=None if graph.cache is None else StepCache(graph.cache, STEPS_CHANNEL, self.agent),
            name=graph.name,
        )
        # Beside the channels of the state: nothing that the graph reads, writes or gives back knows of it.
        made.channels[STEPS_CHANNEL] = Topic(StepRecord)
        if stops.after:
            made.channels[STOPS_CHANNEL] = EphemeralValue(str, guard=False)
        for node in made.nodes.values():
            bound = node.bound.node if isinstance(node.bound, _Stopping) else node.bound
            if isinstance(bound, _Node) and isinstance(bound.inner, CompiledStateGraph):
                node.subgraphs = [bound.inner]
        made.config = graph.config
        made.retry_policy = graph.retry_policy
        made.step_timeout = graph.step_timeout
        return made

    def _node(self, name: str, spec: Any, prefix: str, stops: _Stops, scope: _Scope) -> Any:
        inner: Runnable[Any, Any] = spec.runnable
        place = f"{prefix}{name}"
        graph = isinstance(inner, CompiledStateGraph)
        if isinstance(inner, CompiledStateGraph):
            inner = self.adapted(inner, f"{place}{INSIDE}", scope.nodes)
        source = self.source.of(spec.runnable)
        node = _Node(self, place, inner, spec.error_handler_node, scope, is_graph=graph, source=source)
        stopping = _Stopping(node, name, stops) if stops.before or stops.after else node
        return replace(spec, runnable=stopping)

    def _branch(
        self, start: str, name: str, branch: BranchSpec, prefix: str, branches: int, nodes: frozenset[str]
    ) -> BranchSpec:
        router = router_name(self.agent, f"{prefix}{start}", name, branches)
        return branch._replace(path=_Path(self, f"{prefix}{start}", router, branch, nodes))

    def recording(
        self,
        task_id: str,
        node: str,
        router: str,
        decision: Decision,
        decided: DecidedRecord,
        policy_version: str = "",
    ) -> DecisionRecord:
        """Records a decision, by an id that is the same when its task is repeated."""
        decision_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{task_id}/{router}").hex
        session = current_session()
        ids = {RUN_ID: session.run_id} if session else {}
        made = self.recorder.record(
            decision_id=decision_id,
            router=router,
            policy_version=policy_version,
            node=node,
            decision=decision,
            state=ids,
        )
        return DecisionRecord(**{**made, "decided": decided})


class _Node(Runnable[Any, Any]):
    """A node as LangGraph runs it: the node itself, and the record of it."""

    def __init__(
        self,
        adapter: _Adapter,
        place: str,
        inner: Runnable[Any, Any],
        handler: str | None,
        scope: _Scope,
        *,
        is_graph: bool,
        source: str,
    ) -> None:
        self._adapter = adapter
        self._place = place
        self.inner = inner
        self._handler = handler
        self._scope = scope
        self._is_graph = is_graph
        self._source = source
        self.name = inner.get_name()
        # By these a cache that several graphs share tells nodes apart.
        self.__module__, self.__qualname__ = adapter.agent, place

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Runs the node, unrecorded: the platform runs graphs asynchronously."""
        return self.inner.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Runs the node; a failure is recorded, and raised as it is."""
        return await self._recorded(input, config, None, **kwargs)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Runs the node, and yields what it brings as it comes; LangGraph asks for that where callbacks tell of it."""
        chunks: asyncio.Queue[tuple[Any] | None] = asyncio.Queue()

        async def run() -> None:
            try:
                await self._recorded(input, config, lambda chunk: chunks.put_nowait((chunk,)), **kwargs)
            finally:
                chunks.put_nowait(None)

        running = asyncio.create_task(run())
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk[0]
            await running
        finally:
            await stop(running)

    async def _recorded(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None,
        tell: Callable[[Any], None] | None,
        **kwargs: Any,
    ) -> Any:
        session = current_session()
        if session is None or config is None:
            return await self._brought(input, config or {}, tell, **kwargs)
        config = {**config, "recursion_limit": session.max_steps}
        task_id = config[CONF][CONFIG_KEY_TASK_ID]
        visit = session.visit(task_id, self._place)
        attributes = {ATTRIBUTE_PREFIX + NODE: self._place}
        try:
            with session.inside(visit), tracer().start_as_current_span(f"node {self._place}", attributes=attributes):
                session.check_time()
                with contained():
                    result = await self._run(session, visit, input, config, tell, **kwargs)
        except ParentCommand as command:
            # A node inside has left its graph, which keeps nothing of the step.
            self._send(config, self._ended(session, task_id, visit, None), visit)
            raise command from None
        except RunStopped:
            visit.drop_stored()
            self._break_off(session, task_id, visit)
            raise
        except GraphBubbleUp:
            # It asks, and is run again from its beginning.
            visit.drop_stored()
            raise
        except (ClaimLost, DatabaseAway):
            raise
        except Exception as error:
            self._fail(session, task_id, visit, error)
            raise
        if not self._is_graph:
            record_result(self._adapter.serde, NODE_SOURCE, self._place, input, result)
        record = self._ended(session, task_id, visit, self._command_of(task_id, result))
        self._send(config, record, visit, leaves=_leaves(result))
        return result

    async def _run(
        self,
        session: HostedSession,
        visit: Visit,
        given: Any,
        config: RunnableConfig,
        tell: Callable[[Any], None] | None,
        **kwargs: Any,
    ) -> Any:
        config = await anew_unless_begun(config)
        if self._is_graph:
            return await self._brought(given, config, tell, **kwargs)
        if session.replayed is not None:
            return session.replayed(NODE_SOURCE, self._place, asked_of_node(self._adapter.serde, given))
        config = writing_to(config, functools.partial(session.write, visit), self._place)
        run = functools.partial(self._brought, given, config, tell, **kwargs)
        return await _within_limits(session, visit, f"the node {self._place!r}", run)

    async def _brought(
        self, given: Any, config: RunnableConfig, tell: Callable[[Any], None] | None, **kwargs: Any
    ) -> Any:
        """Returns what the node returns; its parts are told as they come, and put together as LangGraph does it."""
        if tell is None:
            return await self.inner.ainvoke(given, config, **kwargs)
        parts: list[Any] = []
        async for part in streamed(self.inner, given, config, **kwargs):
            tell(part)
            try:
                parts = [parts[0] + part] if parts else [part]
            except TypeError:
                parts = [part]
        return parts[0] if parts else None

    def _ended(self, session: HostedSession, task_id: str, visit: Visit, decision: DecisionRecord | None) -> StepRecord:
        elapsed_s = visit.end()
        calls = [*session.take_attempts(task_id), *visit.calls]
        record = step_record(self._place, elapsed_s, calls, decision, concludes=False)
        record["task"] = task_id
        if visit.written.parts:
            record["written"] = visit.written.parts
        if visit.stored or visit.refreshed:
            record["stored"] = [*visit.stored, *visit.refreshed.values()]
        return session.recorded(visit, record)

    @staticmethod
    def _send(config: RunnableConfig, record: StepRecord, visit: Visit, *, leaves: bool = False) -> None:
        """Writes the records for the step's checkpoint: here, or where a node that leaves its graph goes on."""
        session = current_session()
        handled, records = (session.handled, [*visit.left, record]) if session else ([], [*visit.left, record])
        records[:0] = handled
        handled.clear()
        if leaves and visit.parent is not None:
            visit.parent.left += records
        else:
            _write(config, records)

    def _fail(self, session: HostedSession, task_id: str, visit: Visit, error: Exception) -> None:
        """Records a failure, for the run's end or for the node that handles it. Raises RunWaits for what is away."""
        visit.drop_stored()
        if session.failure is error:  # It has come up from a node inside.
            self._hand_over(session)
            return
        if visit.away and _comes_from(error, visit.away[0]) and (waits := session.wait(visit, visit.away[1])):
            raise waits from error
        log.error("node failed", node=self._place, exc_info=error)
        refused = isinstance(error, BudgetSpentError)
        facts = {"budget_spent": session.refused} if refused else {"error_reason": reason_of(error)}
        ended_by = self._led_nowhere(task_id, BUDGET_EXHAUSTED if refused else NODE_FAILED, facts)
        session.failed = self._ended(session, task_id, visit, ended_by)
        session.failure = error
        self._hand_over(session)

    def _break_off(self, session: HostedSession, task_id: str, visit: Visit) -> None:
        """Records that the run was stopped here; what others of the step have cost goes with the first that was."""
        if session.failed is None:
            log.info("node broken off", node=self._place)
            session.failed = self._ended(session, task_id, visit, self._led_nowhere(task_id, RUN_CANCELLED, {}))

    def _led_nowhere(self, task_id: str, rule: str, facts: dict[str, Any]) -> DecisionRecord:
        decision = Decision(rule, END, {}, grounds=facts, rejected=(), facts=facts)
        decided = DecidedRecord(by=CODE, destinations=[DestinationRecord(node=END, count=1)], source=self._source)
        router = f"{self._adapter.agent}.route_after_{self._place}"
        return self._adapter.recording(task_id, self._place, router, decision, decided)

    def _hand_over(self, session: HostedSession) -> None:
        """Leaves the record of a failure to the next node that ends, where another node handles the failure."""
        if self._handler is not None and session.failed is not None and session.failure is not None:
            if recording := current_recording():
                recording.add(answer_of_failure(session.failed["node"], session.failure, reason_of(session.failure)))
            session.handled.append(session.failed)
            session.failed = session.failure = None

    def _command_of(self, task_id: str, result: Any) -> DecisionRecord | None:
        """Returns the decision of a node that says where to go itself."""
        commands = [each for each in _several(result) if isinstance(each, Command)]
        goto = [to for command in commands for to in _several(command.goto)]
        if not goto:
            return None
        nodes = self._scope.around if _leaves(result) else self._scope.nodes
        updates: Reads = {}
        for command in commands:
            if isinstance(command.update, Mapping):
                updates |= {str(name): value for name, value in command.update.items()}
        destinations, sends, unknown = counted(goto, nodes)
        facts = facts_of(updates)
        decided = DecidedRecord(by=FAN_OUT if sends else COMMAND, destinations=destinations, source=self._source)
        if remark := "; ".join(filter(None, (choice_of_model(updates), unknown))):
            decided["remark"] = remark
        place = joined(destinations)
        decision = Decision(FAN_OUT if sends else COMMAND, place, {}, grounds=facts, rejected=(), facts=facts)
        router = f"{self._adapter.agent}.route_after_{self._place}"
        return self._adapter.recording(task_id, self._place, router, decision, decided)


@dataclass(frozen=True)
class _Scope:
    """The nodes of a graph, and those of the graph that it is a node of."""

    nodes: frozenset[str]
    around: frozenset[str]


@dataclass(frozen=True)
class _Stops:
    """Where a graph was compiled to stop until somebody has it go on; all nodes where it says so of all."""

    before: frozenset[str]
    after: frozenset[str]

    @classmethod
    def of(cls, graph: Graph) -> _Stops:
        """Returns those of a graph."""
        given = graph.interrupt_before_nodes, graph.interrupt_after_nodes
        return cls(*(frozenset(graph.builder.nodes if nodes == "*" else nodes) for nodes in given))


class _Stopping(Runnable[Any, Any]):
    """A node of a graph that stops before some nodes, or after some: it asks whether to go on.

    LangGraph's own stop has no mark in a checkpoint, so that a replica that takes over would go past it.
    """

    def __init__(self, node: _Node, name: str, stops: _Stops) -> None:
        self.node = node
        self.name = node.name
        self.__module__, self.__qualname__ = node.__module__, node.__qualname__
        self._node_name = name
        self._stops = stops

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Runs the node; only the platform stops."""
        return self.node.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Runs the node, once somebody has answered where the graph stops. Raises GraphInterrupt."""
        session = current_session()
        if session is None or session.replayed is not None or config is None:
            return await self.node.ainvoke(input, config, **kwargs)
        left = config[CONF][CONFIG_KEY_READ](STOPS_CHANNEL) if self._stops.after else None
        if left or self._node_name in self._stops.before:
            where = f"after {left!r}" if left else f"before {self._node_name!r}"
            interrupt({"question": f"The graph stops {where}. Go on to {self._node_name!r}?", "stops": where})
        result = await self.node.ainvoke(input, config, **kwargs)
        if self._node_name in self._stops.after:
            config[CONF][CONFIG_KEY_SEND]([(STOPS_CHANNEL, self._node_name)])
        return result


@dataclass
class _Watch:
    reads: Reads = field(default_factory=dict)
    instructions: list[int] = field(default_factory=list)
    # What the function was given, as it was: the state, and what else by name.
    given: tuple[Any, dict[str, Any]] | None = None
    # What the edge's own table decided, and the version of its limits; or why it can't be told.
    decided: tuple[Decision, str] | None = None
    remark: str = ""


_watch: ContextVar[_Watch | None] = ContextVar("hosted_watch", default=None)


class _Path(Runnable[Any, Any]):
    """A path function as LangGraph asks it: the function itself, and the record of its decision."""

    def __init__(self, adapter: _Adapter, place: str, router: str, branch: BranchSpec, nodes: frozenset[str]) -> None:
        self._adapter = adapter
        self._nodes = nodes
        self._place = place
        self._router = router
        self._lifted: LiftedRouter | None = adapter.lifted.routers.get(router)
        self._ends = branch.ends
        path = branch.path
        function = getattr(path, "func", None) or getattr(path, "afunc", None)
        self._function = PathFunction(function) if function is not None else None
        self._source = adapter.source.of(path)
        self._path = _watched(path, self._function) if self._function else path
        self._table: Router[Any, Any] | None = adapter.lifted.given.get(router)
        # The table under the limits that runs are pinned to.
        self._under: dict[Any, tuple[Router[Any, Any], str]] = {}
        # It may ask a model: a replay of a recorded run gives back what it returned.
        self._may_ask = getattr(path, "func", None) is None and self._lifted is None
        self.name = path.get_name()

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Asks the function; LangGraph does it so where a command has left a graph inside the node."""
        session = current_session()
        if session is None or config is None:
            return self._path.invoke(input, config, **kwargs)
        watch = _Watch()
        token = _watch.set(watch)
        try:
            with contained():
                result = self._by_table(session, watch, input) or self._path.invoke(input, config, **kwargs)
        finally:
            _watch.reset(token)
        self._record(session, config, watch, result)
        return result

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Asks the function; one that raises is a failure of the node."""
        session = current_session()
        if session is None or config is None:
            return await self._path.ainvoke(input, config, **kwargs)
        watch = _Watch()
        token = _watch.set(watch)
        try:
            with contained():
                ask = functools.partial(self._asked, session, watch, input, config, **kwargs)
                result = await _within_limits(session, None, f"the path function after {self._place!r}", ask)
        finally:
            _watch.reset(token)
        self._record(session, config, watch, result)
        return result

    def _by_table(self, session: HostedSession, watch: _Watch, state: Any) -> Any:
        """Returns where the edge's own table leads under the run's limits; None where it has none."""
        if self._table is None:
            return None
        if session.limits not in self._under:
            under = self._table.under(session.limits or self._table.policy, self._router)
            self._under[session.limits] = under, policy_version(under.policy)
        table, version = self._under[session.limits]
        try:
            decision = table.decide(state)
        except UnkeptFactsError as error:
            # It is decided all the same; nothing can be told of it but where it led.
            watch.remark = str(error)
            return table(state)
        watch.decided = replace(decision, destination=str(decision.destination)), version
        return as_returned(decision.destination)

    async def _asked(
        self, session: HostedSession, watch: _Watch, given: Any, config: RunnableConfig, **kwargs: Any
    ) -> Any:
        if (result := self._by_table(session, watch, given)) is not None:
            return result
        if not self._may_ask:
            return await self._path.ainvoke(given, config, **kwargs)
        if session.replayed is not None:
            return session.replayed(PATH, self._router, asked_of_node(self._adapter.serde, given))
        result = await self._path.ainvoke(given, config, **kwargs)
        record_result(self._adapter.serde, PATH, self._router, given, result)
        return result

    def _record(self, session: HostedSession, config: RunnableConfig, watch: _Watch, result: Any) -> None:
        task_id = config[CONF][CONFIG_KEY_TASK_ID]
        way = self._function.way(watch.instructions) if self._function and watch.instructions else None
        ends = [self._end_of(each) for each in _several(result)]
        destinations, sends, unknown = counted(ends, self._nodes)
        decided = DecidedRecord(by=FAN_OUT if sends else CODE, destinations=destinations, source=self._source)
        if way:
            decided["tests"] = [{"test": test.test, "line": test.line, "held": test.held} for test in way.tests]
            decided["returned_at"], decided["returned"] = way.returned_at, way.returned
        decision, version = self._decision(watch, result, decided, sends=sends, is_known=not unknown)
        off = self._lifted.off if self._lifted else ""
        if remark := "; ".join(filter(None, (choice_of_model(watch.reads), off, watch.remark, unknown))):
            decided["remark"] = remark
        made = self._adapter.recording(task_id, self._place, self._router, decision, decided, version)
        visit = session.visit_of(task_id)
        record = visit.record if visit else None
        if record is not None and record["decision"] is None:
            # It is in the task's writes already, and is stored once the task has ended.
            record["decision"] = made
            return
        if record is not None:
            decided["further"] = True
        further = step_record(self._place, 0.0, [], made, concludes=False)
        further["task"] = task_id
        _write(config, [further])

    def _decision(
        self, watch: _Watch, result: Any, decided: DecidedRecord, *, sends: bool, is_known: bool
    ) -> tuple[Decision, str]:
        """Returns the decision with its policy's version: as the lifted table has it, or as the code made it."""
        place = joined(decided["destinations"])
        if watch.decided is not None:
            decided["by"] = TABLE
            return watch.decided
        if is_known and self._lifted and watch.given and (lifted := self._lifted.decision(*watch.given, place)):
            decided["by"] = LIFTED
            return lifted, self._lifted.version
        facts = facts_of(watch.reads)
        rule = FAN_OUT if sends else self._rule(result)
        return Decision(rule, place, {}, grounds=facts, rejected=(), facts=facts), ""

    def _end_of(self, result: Any) -> Any:
        """Returns the node that a result stands for; LangGraph refuses what stands for none."""
        return result if isinstance(result, Send) or not self._ends else self._ends.get(result, result)

    def _rule(self, result: Any) -> str:
        """Returns the name of what the function said: names are those of the edges or nodes, and there are few."""
        known = self._ends or {END, *self._nodes}
        said = (str(each) if isinstance(each, Hashable) and each in known else "?" for each in _several(result))
        return ", ".join(dict.fromkeys(said)) or "nothing"


async def _within_limits(
    session: HostedSession, visit: Visit | None, what: str, asked: Callable[[], Awaitable[Any]]
) -> Any:
    """Returns what a graph's own code brings; it has as long as a node may take, and as the run has, until that stops.

    Raises NodeTimedOut, BudgetSpentError, RunStopped.
    """
    limit = AttemptLimit(session.stop, session.node_timeout_s)
    if visit is not None:
        visit.limit = limit
    left_s = session.left_s
    end = session.loop.call_later(left_s, _end_time, session, limit) if left_s < session.node_timeout_s else None
    try:
        async with limit:
            try:
                return await asked()
            except Exception:
                await limit.until_let_go()
                raise
    except TimeoutError as error:
        if limit.expired:
            raise NodeTimedOut(f"{what} did not end within {session.node_timeout_s:g} s") from error
        raise
    finally:
        if end is not None:
            end.cancel()


def _end_time(session: HostedSession, limit: AttemptLimit) -> None:
    session.refused = session.refused or "wall_time_s"
    limit.break_off(BudgetSpentError(session.refused))


def _watched(path: Runnable[Any, Any], function: PathFunction) -> Runnable[Any, Any]:
    """Returns a copy of what asks a path function, whose state notes what is read of it."""
    if not isinstance(path, RunnableCallable | RunnableLambda):
        return path
    watched: RunnableCallable | RunnableLambda[Any, Any] = copy(path)
    ask, asked_later = getattr(path, "func", None), getattr(path, "afunc", None)
    if ask is not None:
        followed = _followed(ask, function)
        watched.func = followed
        if asked_later is not None:
            # As LangGraph has it: a function that is no coroutine may take long, and runs in a thread.
            watched.afunc = functools.wraps(ask)(functools.partial(run_in_executor, None, followed))
    elif asked_later is not None:
        watched.afunc = _noted(asked_later)
    return watched


def _followed(ask: Callable[..., Any], function: PathFunction) -> Callable[..., Any]:
    @functools.wraps(ask)
    def followed(state: Any, *arguments: Any, **named: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return ask(state, *arguments, **named)
        given = recorded(state, watch.reads)
        watch.given = state, named
        try:
            with function.followed(watch.instructions):
                result = ask(given, *arguments, **named)
            return _with_state(result, given, state)
        finally:
            forget(given)

    return followed


def _noted(ask: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(ask)
    async def noted(state: Any, *arguments: Any, **named: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return await ask(state, *arguments, **named)
        given = recorded(state, watch.reads)
        watch.given = state, named
        try:
            return _with_state(await ask(given, *arguments, **named), given, state)
        finally:
            forget(given)

    return noted


def _with_state(result: Any, given: Any, state: Any) -> Any:
    """Returns a result that sends the state itself where it sends the one that was read."""
    if isinstance(result, list | tuple):
        return [_with_state(each, given, state) for each in result]
    return _sent(result, state) if isinstance(result, Send) and result.arg is given else result


def _sent(packet: Send, state: Any) -> Send:
    sent = copy(packet)
    sent.arg = state
    return sent


def _write(config: RunnableConfig, records: Sequence[StepRecord]) -> None:
    config[CONF][CONFIG_KEY_SEND]([(STEPS_CHANNEL, record) for record in records])


def _leaves(result: Any) -> bool:
    """Whether a node leaves its graph by what it returned."""
    return any(isinstance(each, Command) and each.graph == Command.PARENT for each in _several(result))


def _comes_from(error: BaseException, cause: BaseException) -> bool:
    """Whether an error is another one, or was raised on its account."""
    seen: BaseException | None = error
    while seen is not None and seen is not cause:
        seen = seen.__cause__ or seen.__context__
    return seen is cause


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def counted(goto: Sequence[Any], nodes: Container[str]) -> tuple[list[DestinationRecord], bool, str]:
    """Returns the nodes that are gone to, each with how often; whether packets are sent; and what is no node, in words.

    LangGraph leaves out what is no node, so that nothing is gone to by it.
    """
    names: dict[str, int] = {}
    unknown: list[Any] = []
    for each in goto:
        name = each.node if isinstance(each, Send) else each
        if isinstance(name, str) and (name in nodes or (name == END and name is each)):
            names[name] = names.get(name, 0) + 1
        else:
            unknown.append(name)
    found = [DestinationRecord(node=name, count=count) for name, count in names.items()]
    return found, any(isinstance(each, Send) for each in goto), _unknown(unknown)


def _unknown(names: Sequence[Any]) -> str:
    if not names:
        return ""
    first = names[0] if isinstance(names[0], str) else f"a {type(names[0]).__name__}"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"unknown destination, no node of the graph: {presentable(first, LONGEST_TEXT)}{more}"


def joined(destinations: Sequence[DestinationRecord]) -> str:
    """Returns the names of destinations as one text; the end where there is none."""
    return ", ".join(each["node"] for each in destinations) or END


def reason_of(error: BaseException) -> str:
    """Returns what a failure is known by: an error's reason, or the type of what a graph raised."""
    return error.reason if isinstance(error, SignalboxError) else presentable(type(error).__name__)


def nodes_of(graph: Graph, prefix: str = "") -> Iterator[tuple[str, Graph]]:
    """Yields the nodes of a graph and of those inside it, each by the name that its steps have, with its graph."""
    for name, spec in graph.builder.nodes.items():
        yield f"{prefix}{name}", graph
        if isinstance(spec.runnable, CompiledStateGraph):
            yield from nodes_of(spec.runnable, f"{prefix}{name}{INSIDE}")
