"""Lifted tables at work: each is evaluated beside its function, and is in use for as long as the two agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from langgraph.graph import END
from langgraph.graph._branch import BranchSpec
from langgraph.graph.state import CompiledStateGraph
from prometheus_client import Counter
from signalbox_routing.facts import as_dict
from signalbox_routing.table import Decision, Router, Several, State

from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import METRIC_PREFIX
from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting.expressions import NotLiftedError
from services.runtime.hosted.lifting.looking import NotLookedAtError, plain
from services.runtime.hosted.lifting.tables import LiftedLimits, Table, table_of
from services.runtime.hosted.lifting.unfolding import Unfolded, unfolded
from services.runtime.routing.digest import policy_version

log = get_logger()
TABLES_DROPPED = Counter(
    METRIC_PREFIX + "lifted_tables_dropped_total",
    "Tables lifted from code that this replica uses no more, by cause: disagreed, changed (a limit in the code), or "
    "not_evaluated.",
    ["cause"],
)
DISAGREED, CHANGED, NOT_EVALUATED = "disagreed", "changed", "not_evaluated"
from_zero(TABLES_DROPPED, [DISAGREED, CHANGED, NOT_EVALUATED])
# Of this thread alone: whatever else is under way, an evaluation takes a thousandth of it.
MOST_TIME_S = 0.1
# What decides, as decisions of the ledger say it.
CODE, LIFTED, TABLE = "code", "lifted", "table"
# Between the name of a node and that of a node in the graph inside it.
INSIDE = "/"
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass
class LiftedRouter:
    """A table beside the function that it was lifted from; `off` says why it is in use no more."""

    router: Router[Any, Any]
    table: Table
    arguments: tuple[str, ...]
    off: str = ""
    version: str = field(init=False)
    _before: list[tuple[ex.Named, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.version = policy_version(self.router.policy)
        # What has been dropped because it could not be copied is compared by what it is.
        self._before = [(named, _copy(named.value)) for named in self.table.named]

    def decision(self, state: Any, named: Mapping[str, Any], destination: str) -> Decision | None:
        """Returns the decision as the table has it; None where that is not what the function has decided.

        It is asked after the function, on the same state, and runs nothing of the state's own code. Never raises.
        """
        if self.off:
            return None
        begun = time.thread_time()
        try:
            decision = self._decided(state, named, destination)
        except NotLookedAtError as error:
            self._drop(NOT_EVALUATED, f"it would have to look at {error}")
        except Exception as error:  # to no effect: the run goes on as the function has decided
            log.exception("a lifted table can't be evaluated", router=self.router.name)
            self._drop(NOT_EVALUATED, f"it ended with {type(error).__name__}")
        else:
            if time.thread_time() - begun > MOST_TIME_S:
                self._drop(NOT_EVALUATED, "it took too long")
            return decision
        return None

    def _decided(self, state: Any, named: Mapping[str, Any], destination: str) -> Decision | None:
        if changed := self._changed():
            self._drop(CHANGED, f"{changed} is not what it was when the table was made")
            return None
        first, *others = self.arguments
        facts = self.table.take({first: state, **{name: named[name] for name in others}})
        decision = self.router.decide_on(facts)
        if decision.destination != destination:
            self._drop(DISAGREED, f"it led to {decision.destination} where the code led to {destination}")
            return None
        return decision

    def _changed(self) -> str:
        """Returns the name of what the code has another value for by now."""
        for named, before in self._before:
            now = named.current()
            if now is not named.value or (before is not None and before != _copy(now)):
                try:
                    if type(now) is type(named.value) and plain(now) == plain(named.value):
                        continue
                except NotLookedAtError:
                    pass
                return named.name
        return ""

    def _drop(self, cause: str, why: str) -> None:
        self.off = f"the table lifted from it is in use no more: {why}"
        TABLES_DROPPED.labels(cause).inc()
        log.warning("a lifted table is in use no more", router=self.router.name, cause=cause, why=why)


def _copy(value: Any) -> Any:
    """Returns what a list, set or dict of plain values holds, to be compared later; None for anything else."""
    if type(value) not in (list, dict, set):
        return None
    items = list(value.items()) if type(value) is dict else list(value)
    try:
        return [tuple(map(plain, each)) if type(each) is tuple else plain(each) for each in items]
    except NotLookedAtError:
        return [id(each) for each in (value.values() if type(value) is dict else value)]


@dataclass(frozen=True)
class PathBranch:
    """A conditional edge: after which node, by which name, and how."""

    node: str
    router: str
    branch: BranchSpec

    @property
    def function(self) -> Callable[..., Any] | None:
        """Its path function; None where it is something else that LangChain runs."""
        return getattr(self.branch.path, "func", None) or getattr(self.branch.path, "afunc", None)


@dataclass(frozen=True)
class NotLifted:
    """A path function that has no table, and why."""

    router: str
    reason: str


@dataclass(frozen=True)
class LiftedGraph:
    """What could be lifted from a graph's path functions, by the names of their routers, and what could not."""

    routers: Mapping[str, LiftedRouter] = field(default_factory=dict)
    others: Sequence[NotLifted] = ()
    branches: Sequence[PathBranch] = ()
    limits: Any = None
    # Path functions that are tables themselves.
    given: Mapping[str, Router[Any, Any]] = field(default_factory=dict)

    def under(self, policy: Any) -> LiftedGraph:
        """Returns it with the tables in the code under a policy that is made of theirs."""
        return replace(self, given={name: table.under(policy, name) for name, table in self.given.items()})

    def table(self, router: str) -> Router[Any, Any] | None:
        """Returns the table of a conditional edge, lifted from its code or standing in it; None where it has none."""
        lifted = self.routers.get(router)
        return lifted.router if lifted else self.given.get(router)

    @property
    def tables(self) -> tuple[tuple[str, Router[Any, Any]], ...]:
        """The tables by node, those in use no more among them: earlier decisions were made by them."""
        found = ((each.node, self.table(each.router)) for each in self.branches)
        return tuple((node, table) for node, table in found if table)

    def decided_by(self, node: str) -> str:
        """Returns what the one conditional edge after a node is decided by; empty where there are none, or several."""
        routers = [each.router for each in self.branches if each.node == node]
        if len(routers) != 1:
            return ""
        return TABLE if routers[0] in self.given else LIFTED if routers[0] in self.routers else CODE

    @property
    def by_node(self) -> Mapping[str, Router[Any, Any]]:
        """The table after each node that has one conditional edge, and leads to one node at a time by it."""
        found: dict[str, list[str]] = {}
        for branch in self.branches:
            found.setdefault(branch.node, []).append(branch.router)
        tables = {node: self.table(names[0]) for node, names in found.items() if len(names) == 1}
        return {
            node: table
            for node, table in tables.items()
            if table and not any(isinstance(to, Several) for to in table.destinations)
        }


def lifted(graph: Graph, agent: str) -> LiftedGraph:
    """Returns the tables of a graph's path functions, those of graphs inside nodes included."""
    branches, types = list(branches_of(graph, agent)), types_of(graph)
    given = {each.router: each.function for each, _ in branches if isinstance(each.function, Router)}
    settable = {name for table in given.values() for name in as_dict(table.policy)}
    limits, found, others = (
        LiftedLimits(agent, settable),
        dict[str, tuple[PathBranch, Table, Unfolded]](),
        list[NotLifted](),
    )
    for each, nodes in branches:
        if each.router in given:
            continue
        before = limits.snapshot()
        try:
            expression = unfolded(each.function)
            found[each.router] = each, table_of(expression, each.branch.ends, nodes, limits, types), expression
        except NotLiftedError as error:
            limits.restore(before)
            others.append(NotLifted(each.router, f"it {error}"))
        except Exception as error:  # what can't be read runs all the same
            log.exception("a path function can't be lifted", router=each.router)
            limits.restore(before)
            others.append(NotLifted(each.router, f"reading it ended with {type(error).__name__}"))
    policy = limits.finished()
    routers = {}
    for name, (_, table, expression) in found.items():
        try:
            router: Router[Any, Any] = Router(
                name, facts=facts_reader(table, expression), policy=policy, rules=table.rules
            )
            routers[name] = LiftedRouter(router, table, expression.arguments)
        except Exception as error:  # the graph's other tables, and the graph itself, do without this one
            log.exception("a lifted table can't be used", router=name)
            others.append(NotLifted(name, f"it comes to no table: {error}"))
    return LiftedGraph(routers, tuple(others), tuple(each for each, _ in branches), policy, given)


def types_of(graph: Graph) -> Mapping[str, Any]:
    """Returns the types that a graph's state declares for its fields, as far as they can be found."""
    try:
        return get_type_hints(graph.builder.state_schema)
    except (NameError, TypeError, AttributeError):
        return {}  # names of types that are not there at run time


def facts_reader(table: Table, expression: Unfolded) -> Callable[[State], Any]:
    """Returns what takes a table's facts from a state."""

    def facts(state: State) -> Any:
        return table.take({expression.arguments[0]: state})

    facts.__annotations__["return"] = table.facts
    return facts


def branches_of(graph: Graph, agent: str, prefix: str = "") -> Iterator[tuple[PathBranch, tuple[str, ...]]]:
    """Yields the conditional edges of a graph and of those inside it, each with the nodes of its graph."""
    nodes = (*graph.builder.nodes, END)
    for start, branches in graph.builder.branches.items():
        for name, branch in branches.items():
            router = router_name(agent, f"{prefix}{start}", name, len(branches))
            yield PathBranch(f"{prefix}{start}", router, branch), nodes
    for name, spec in graph.builder.nodes.items():
        if isinstance(spec.runnable, CompiledStateGraph):
            yield from branches_of(spec.runnable, agent, f"{prefix}{name}{INSIDE}")


def router_name(agent: str, place: str, branch: str, branches: int) -> str:
    """Returns the name by which decisions of a conditional edge are recorded."""
    return f"{agent}.route_after_{place}" + (f".{branch}" if branches > 1 else "")
