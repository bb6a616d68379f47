"""The state of a thread, which a run of a hosted graph begins with: what the latest run before it has left."""

from __future__ import annotations

from typing import Any, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg.rows import namedtuple_row
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.compatibility import unfit_fields
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord
from services.runtime.engine.retention_policy import Stage
from services.runtime.errors import ThreadStateGone, ThreadStateUnfit
from services.runtime.routing.graph import AgentGraph


class LeftState(NamedTuple):
    """The last checkpoint of a run, and those of graphs inside its nodes that keep their state from call to call."""

    run_id: str
    last: CheckpointTuple
    inside: tuple[CheckpointTuple, ...] = ()


async def left_state(
    pool: AsyncConnectionPool[Any], serde: SerializerProtocol, run: RunRecord, graph: AgentGraph
) -> LeftState | None:
    """Returns the state that a run's thread has; None before its first run of that agent.

    It is that of the latest run of the same agent that has begun, however that ended: LangGraph, too, leaves its last
    checkpoint to the next call. Raises ThreadStateGone, ThreadStateUnfit.
    """
    parameters = {
        "subject": run.caller.subject,
        "roles": sorted(run.caller.roles),
        "thread_id": run.thread_id,
        "agent": run.agent,
        "created_at": run.created_at,
        "run_id": run.run_id,
        "without_checkpoints": Stage.CHECKPOINTS,
    }
    async with pool.connection() as connection:
        cursor = connection.cursor(row_factory=namedtuple_row)
        await cursor.execute(query("latest_of_thread"), parameters)
        before = await cursor.fetchone()
        if before is None:
            return None
        await cursor.execute(query("lasting_namespaces"), {"thread_id": before.run_id})
        namespaces = [row.checkpoint_ns for row in await cursor.fetchall()]
    gone = ThreadStateGone(
        f"the state that run {before.run_id} left in thread {run.thread_id!r} has been removed by retention; "
        "begin another thread"
    )
    if before.is_gone:
        raise gone
    history = CheckpointHistory(pool, serde)
    try:
        found = [await history.load(before.run_id, namespace, None) for namespace in ("", *namespaces)]
    except (ValueError, TypeError, KeyError, ImportError, AttributeError) as error:
        raise _unfit(run, before.run_id, [f"it can't be read: {type(error).__name__}: {error}"]) from error
    last, *inside = found
    if last is None:
        raise gone
    if before.graph_version != graph.version and (problems := unfit_fields(graph.state, last)):
        raise _unfit(run, before.run_id, problems)
    return LeftState(before.run_id, last, tuple(each for each in inside if each is not None))


def _unfit(run: RunRecord, before: str, problems: list[str]) -> ThreadStateUnfit:
    said = "; ".join(problems)
    return ThreadStateUnfit(
        f"the state that run {before} left in thread {run.thread_id!r} does not fit this version of the graph: {said}; "
        "begin another thread"
    )
