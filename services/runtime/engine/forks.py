"""Runs that go on from a checkpoint of another: with all of its state, and changed as they are asked to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson
import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import runs_pb2

from services.kit.identity.caller import Caller
from services.runtime.agents.offered import Offered
from services.runtime.engine.changes import pack_changes
from services.runtime.engine.compatibility import problems_of_step
from services.runtime.engine.offers import Offers
from services.runtime.engine.queries import query
from services.runtime.engine.records import ForkedFrom, NewRun, RunRecord
from services.runtime.engine.saver import STOP
from services.runtime.engine.snapshot import START, state_values
from services.runtime.engine.store import RunStore
from services.runtime.errors import AgentGone, ForkRefused
from services.runtime.hosted.definition import FIELD, as_struct
from services.runtime.hosted.graph import HostedGraph
from services.runtime.routing.state import NOTHING_SPENT

# In the metadata of the checkpoint that a fork begins with, until its state has been changed.
UNCHANGED = "fork_unchanged"
# Likewise, until the run has begun with its input on top of it.
AWAITS_INPUT = "fork_awaits_input"
# Names the run that ends once its state is changed, there and in the checkpoint of that change.
ENDS_CHANGED = "fork_ends_changed"


def is_hosted(run: RunRecord) -> bool:
    """Whether a run is of a graph that was brought."""
    return bool(runs_pb2.RunInput.FromString(run.input).WhichOneof("agent") == FIELD)


async def check_offered(pool: AsyncConnectionPool[Any], agents: Collection[str], agent: str) -> None:
    """Raises AgentGone for an agent that is neither one of `agents`, those of this replica, nor what a pool offers."""
    if agent not in agents and await Offers(pool).find(agent) is None:
        raise AgentGone(f"no agent {agent!r} runs here")


def version_to_go_on(
    agents: Mapping[str, Offered], run: RunRecord, source: CheckpointTuple, *, waits: bool = True
) -> str:
    """Returns the version of the graph here that goes on from a step of a run of a graph that was brought.

    Empty where only others have it: whoever goes on with it looks at the checkpoint. `waits` as in `problems_of_step`.
    Raises ForkRefused for a step that the graph here can't go on from.
    """
    graph = agents[run.agent].outline if run.agent in agents else None
    if not isinstance(graph, HostedGraph):
        return ""
    if problems := problems_of_step(graph, run.graph_version, source, waits=waits):
        said = "; ".join(problems)
        raise ForkRefused(f"the state of run {run.run_id} does not fit this version of the graph: {said}")
    return graph.version


def with_input(given: bytes, new_input: Mapping[str, Any]) -> runs_pb2.RunInput:
    """Returns the input of a hosted graph's run with other fields to begin with, in the same context."""
    changed = runs_pb2.RunInput.FromString(given)
    changed.graph.input.CopyFrom(as_struct(new_input))
    return changed


def continuing(
    run: RunRecord, caller: Caller, thread_id: str | None, traceparent: str, request_id: str | None = None
) -> NewRun:
    """Returns what it takes to create a run that goes on from a checkpoint of another."""
    return NewRun(
        agent=run.agent,
        # It may be older than what the run ended on: whoever goes on with it looks at the checkpoint.
        graph_version="",
        # With the rights that the caller has now, not those of then.
        caller=caller,
        input=run.input,
        budget=run.budget,
        budget_origins=run.budget_origins,
        correlation_id=run.correlation_id,
        thread_id=thread_id,
        request_id=request_id,
        traceparent=traceparent,
        labels=run.labels,
        title=run.title,
    )


async def continued(
    connection: AsyncConnection[Any],
    runs: RunStore,
    serde: SerializerProtocol,
    new: NewRun,
    source: CheckpointTuple,
    forked_from: ForkedFrom,
    *,
    hosted: bool,
    awaits_input: bool = False,
) -> RunRecord | None:
    """Creates a pending run whose only checkpoint is another run's, told whose it is now; None for a known request.

    With `awaits_input` it begins with its own input on top of that; else it goes on with what was to run next, or with
    `forked_from.only_state` ends when its state is changed.

    Raises RunQuotaExceeded.
    """
    run = await runs.create_pending(connection, new)
    if run is None:
        return None
    values = source.checkpoint["channel_values"]
    # What tasks had written on top of it belongs to the step that is to be done anew.
    body = {name: value for name, value in source.checkpoint.items() if name != "channel_values"}
    if awaits_input:
        # It keeps the name of the run that it is of: LangGraph takes no input on top of a checkpoint of the same run.
        marks: dict[str, Any] = {AWAITS_INPUT: True}
    else:
        marks = {
            "run_id": run.run_id,
            **({UNCHANGED: True} if forked_from.changes else {}),
            **({ENDS_CHANGED: run.run_id} if forked_from.only_state else {}),
        }
    row = {
        "thread_id": run.run_id,
        "checkpoint_ns": "",
        "checkpoint_id": source.checkpoint["id"],
        "parent_checkpoint_id": None,
        "body": ormsgpack.packb(body),
        "changes": pack_changes(
            serde, values if hosted else _renamed(values, run.run_id), source.checkpoint["channel_versions"], {}
        ),
        "metadata": orjson.dumps({**source.metadata, STOP: None, **marks}).decode(),
    }
    await connection.execute(query("put_checkpoint"), row)
    # The fields of a graph that was brought are its own, whatever they are called.
    spend = NOTHING_SPENT if hosted else state_values(source).get("spend") or NOTHING_SPENT
    cursor = connection.cursor(row_factory=dict_row)
    parameters = {**spend, "run_id": run.run_id, "forked_from": orjson.dumps(forked_from.stored).decode()}
    await cursor.execute(query("continue_run"), parameters)
    row_now = await cursor.fetchone()
    return RunRecord.of(row_now) if row_now else run


def _renamed(values: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    renamed = dict(values)
    if "run_id" in renamed:
        renamed["run_id"] = run_id
    if isinstance(given := renamed.get(START), dict):
        renamed[START] = {**given, "run_id": run_id}
    return renamed
