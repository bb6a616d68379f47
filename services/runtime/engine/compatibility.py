"""Whether the installed graphs could go on with a run: what its latest checkpoint needs, against what there is."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg_pool import AsyncConnectionPool
from signalbox_routing.facts import Record

from services.runtime.agents.policies import UnknownLimitTypeError, restored
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.engine.snapshot import (
    JOIN,
    START,
    awaited_joins,
    deferred_nodes,
    kept_values,
    pending_nodes,
    state_values,
    written_nodes,
)
from services.runtime.hosted.graph import HostedGraph
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.state import IN_PROGRESS

PAGE = 200
# Not stored: records of the step that is being written.
STEPS = "steps"
# The namespace of a graph inside a node is the node's name and the id of its task.
NAMESPACE_END = ":"


@dataclass(frozen=True)
class IncompatibleRun:
    """An unfinished run that could not go on, and why."""

    run_id: str
    agent: str
    graph_version: str
    problems: tuple[str, ...]


async def incompatible_runs(
    pool: AsyncConnectionPool[Any],
    serde: SerializerProtocol,
    graphs: Mapping[str, AgentGraph],
    policies: Mapping[str, type[Record]],
    others: Set[str] = frozenset(),
) -> AsyncIterator[IncompatibleRun | None]:
    """Yields for every unfinished run what is wrong with it, or None; graphs and policies are by agent.

    Runs of `others` are not looked at.
    """
    history, after = CheckpointHistory(pool, serde), "00000000-0000-0000-0000-000000000000"
    while True:
        async with pool.connection() as connection:
            cursor = await connection.execute(query("unfinished_runs"), {"after": after, "limit": PAGE})
            runs = await cursor.fetchall()
        for run_id, agent, graph_version, limits in runs:
            after = run_id
            if agent in others:
                continue
            problems = await problems_of_run(history, run_id, agent, graphs)
            problems += problems_of_limits(policies, agent, limits)
            yield IncompatibleRun(run_id, agent, graph_version, tuple(problems)) if problems else None
        if len(runs) < PAGE:
            return


def problems_of_limits(policies: Mapping[str, type[Record]], agent: str, limits: Mapping[str, Any] | None) -> list[str]:
    """Returns why a run could not go on under the limits that it is pinned to; empty when it could."""
    if agent not in policies or limits is None:
        return []
    try:
        restored(policies[agent], limits)
    except UnknownLimitTypeError as error:
        return [str(error)]
    return []


async def problems_of_run(
    history: CheckpointHistory, run_id: str, agent: str, graphs: Mapping[str, AgentGraph]
) -> list[str]:
    """Returns why these graphs could not go on with a run; empty when they could. Raises DatabaseAway."""
    if agent not in graphs:
        return [f"there is no agent {agent!r}"]
    graph = graphs[agent]
    inner = {node.name: node.inner for node in graph.nodes if node.inner}
    try:
        found = await history.load(run_id, "", None)
        if found is None:
            return []
        is_hosted = isinstance(graph, HostedGraph)
        problems = problems_of({node.name for node in graph.nodes}, graph.state, found, with_input=not is_hosted)
        if isinstance(graph, HostedGraph):
            problems += _gone_joins(graph, found)
        elif not pending_nodes(found) | written_nodes(found) and state_values(found).get("status") == IN_PROGRESS:
            problems.append("nothing goes on from its checkpoint, although it is in progress")
        for namespace in await history.namespaces_below(run_id, found.checkpoint["id"]):
            node = namespace.partition(NAMESPACE_END)[0]
            if node in inner and (step := await history.load(run_id, namespace, None)):
                inside = problems_of(inner[node].nodes, inner[node].state, step)
                problems += [f"inside node {node!r}: {problem}" for problem in inside]
    except (ValueError, TypeError, KeyError, ImportError, AttributeError) as error:
        return [f"the checkpoint can't be read: {type(error).__name__}: {error}"]
    return problems


def problems_of_step(graph: HostedGraph, version: str, found: CheckpointTuple, *, waits: bool) -> list[str]:
    """Returns why a graph could not go on from a step of a run that a graph of a version has left; empty when it could.

    `waits` says that it goes on with what the step waits for. What the same code has put into its state it takes.
    """
    problems = [*_gone_nodes({node.name for node in graph.nodes}, found), *_gone_joins(graph, found)] if waits else []
    return problems if version == graph.version else problems + unfit_fields(graph.state, found, with_input=False)


def _gone_nodes(nodes: Set[str], found: CheckpointTuple) -> list[str]:
    waiting = pending_nodes(found) | deferred_nodes(found) | written_nodes(found)
    gone = sorted(waiting - nodes - {START})
    return [f"it waits for node {node!r}, which is gone" for node in gone]


def _gone_joins(graph: HostedGraph, found: CheckpointTuple) -> list[str]:
    gone = sorted(awaited_joins(found) - graph.channels)
    return [f"{channel.removeprefix(JOIN)!r} is a join of it that is gone" for channel in gone]


def problems_of(nodes: Set[str], state: type, found: CheckpointTuple, *, with_input: bool = True) -> list[str]:
    """Returns why a graph of these nodes and this state could not go on from a checkpoint; empty when it could."""
    return [*_gone_nodes(nodes, found), *unfit_fields(state, found, with_input=with_input)]


def unfit_fields(state: type, found: CheckpointTuple, *, with_input: bool = True) -> list[str]:
    """Returns what is wrong with the fields of a checkpoint, by the types that a state declares; empty for nothing.

    An input that is still to be taken is no state of a graph with reducers yet: `with_input` says whether it counts.
    """
    hints = get_type_hints(state, include_extras=True)
    values = state_values(found) if with_input else kept_values(found)
    known = {name: value for name, value in values.items() if name in hints and name != STEPS}
    return list(filter(None, (mismatch(value, hints[name], name) for name, value in known.items())))


def mismatch(value: Any, hint: Any, path: str) -> str:
    """Returns where a value does not have the type that a state field declares; empty when it has.

    Typed dictionaries may hold more than they declare: schemas grow.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is None and not isinstance(hint, type)):
        return ""
    if origin in (Annotated, Required, NotRequired):
        return mismatch(value, arguments[0], path)
    if origin is Literal:
        return "" if value in arguments else f"{path} is {value!r}, which is none of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return "" if any(not mismatch(value, each, path) for each in arguments) else _wrong(value, hint, path)
    # Whether from `typing` or, as in libraries, from `typing_extensions`.
    if hasattr(hint, "__required_keys__"):
        return _mismatch_of_fields(value, hint, path)
    if not isinstance(value, _accepted(origin or hint)):
        return _wrong(value, hint, path)
    return _mismatch_inside(value, origin, arguments, path)


def _mismatch_of_fields(value: Any, hint: Any, path: str) -> str:
    if not isinstance(value, Mapping):
        return _wrong(value, hint, path)
    hints = get_type_hints(hint, include_extras=True)
    # Where annotations are strings, as in most modules here, a class takes what is NotRequired for required.
    optional = {name for name, each in hints.items() if get_origin(each) is NotRequired}
    missing = sorted(hint.__required_keys__ - optional - value.keys())
    if missing:
        return f"{path} lacks {', '.join(missing)}"
    found = (mismatch(value[name], each, f"{path}.{name}") for name, each in hints.items() if name in value)
    return next(filter(None, found), "")


def _mismatch_inside(value: Any, origin: Any, arguments: tuple[Any, ...], path: str) -> str:
    if origin in (list, set, frozenset) and arguments:
        found = (mismatch(each, arguments[0], f"{path}[{index}]") for index, each in enumerate(value))
        return next(filter(None, found), "")
    if origin is dict and arguments:
        found = (mismatch(each, arguments[1], f"{path}[{key!r}]") for key, each in value.items())
        return next(filter(None, found), "")
    return ""


def _accepted(kind: Any) -> Any:
    if kind is float:
        return (int, float)
    # What was a tuple may have been written as a list.
    return (list, tuple) if kind is tuple else kind


def _wrong(value: Any, hint: Any, path: str) -> str:
    declared = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
    return f"{path} is {type(value).__name__}, not {declared}"
