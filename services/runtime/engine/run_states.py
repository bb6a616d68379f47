"""The state of a run after each of its steps, as its caller reads it, and runs that go on from one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg_pool import AsyncConnectionPool

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.agents.offered import Offered
from services.runtime.engine.forks import (
    check_offered,
    continued,
    continuing,
    is_hosted,
    version_to_go_on,
    with_input,
)
from services.runtime.engine.history import CheckpointHistory, StepEnd, Steps
from services.runtime.engine.records import ForkedFrom, NewRun, RunRecord
from services.runtime.engine.snapshot import CheckpointSummary, Snapshot, StepTask, kept_values, snapshot_of, summary_of
from services.runtime.engine.step_tasks import TaskWrites, tasks_of
from services.runtime.engine.store import RunStore
from services.runtime.errors import (
    CheckpointNotFound,
    ForkRefused,
    RequestIdReused,
    RolesLost,
    RunNotFound,
    StateUnreadable,
)
from services.runtime.hosted.adapter import STEPS_CHANNEL
from services.runtime.hosted.definition import json_values, title_of
from services.runtime.hosted.graph import check_update
from services.runtime.routing.storable import has_nul

MOST_STEPS = 1000


@dataclass(frozen=True)
class NewFork:
    """What a run is to go on from: a step of another, its state changed by `update` as if the node `as_node` had.

    With `input` it begins with that on top of the state; `in_thread` puts it into the thread of the other run. With
    `only_state` it ends with the change. `chunks_asked` as of a `NewRun`.
    """

    run_id: str
    step: int
    update: Mapping[str, Any] | None = None
    as_node: str = ""
    traceparent: str = ""
    request_id: str | None = None
    in_thread: bool = False
    input: Mapping[str, Any] | None = None
    only_state: bool = False
    chunks_asked: bool = False
    callback_events: bool = False

    def fits(self, made: RunRecord, of: RunRecord) -> bool:
        """Whether this is what a run has been made of, and how."""
        made_of = made.forked_from
        if made_of is None or (made_of.run_id, made_of.step) != (of.run_id, self.step):
            return False
        changed = (made_of.update, made_of.as_node, made_of.only_state) == (self.update, self.as_node, self.only_state)
        given = of.input if self.input is None else with_input(of.input, self.input).SerializeToString()
        return changed and (made.thread_id, made.input) == (of.thread_id if self.in_thread else None, given)


@dataclass(frozen=True)
class StateList:
    """States of a run: how many, each put into plain values when it is taken, and the last event before them."""

    count: int
    states: Iterator[Snapshot]
    last_sequence: int


class RunStates:
    """The states of runs in the database; they are their callers' alone."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serde: SerializerProtocol,
        runs: RunStore,
        agents: Mapping[str, Offered],
    ) -> None:
        self._pool = pool
        self._serde = serde
        self._history = CheckpointHistory(pool, serde)
        self._runs = runs
        self._agents = agents

    async def state(
        self,
        caller: Caller,
        run_id: str,
        step: int | None,
        *,
        as_output: bool = False,
        alone: bool = False,
        with_tasks: bool = False,
    ) -> tuple[Snapshot, list[CheckpointSummary]]:
        """Returns the state after a step, by default the last, and the newest steps whose state is there, in order.

        With `alone` only that step is read. Raises RunNotFound, RolesLost, CheckpointNotFound, StateUnreadable.
        """
        run = await self._run(caller, run_id)
        found, steps = await self._found(run, step, alone=alone)
        with _read(run):
            writes = await self._history.writes_of_tasks(run.run_id, found.checkpoint["id"]) if with_tasks else ()
            shown = _shown(found, as_output=as_output)
            return (replace(shown, tasks=_tasks(run, found, writes)) if with_tasks else shown), steps

    async def after_steps(
        self, caller: Caller, run_id: str, wanted: Steps, *, as_output: bool = False, with_tasks: bool = False
    ) -> StateList:
        """Returns the states after some steps, as far as they are there; each with its tasks and those before it.

        Raises RunNotFound, RolesLost, StateUnreadable.
        """
        run = await self._run(caller, run_id)
        with _read(run):
            found = await self._history.after_steps(run.run_id, wanted, with_tasks=with_tasks)
        # The run has been read before its states: they are of all steps that had ended by then, at least.
        shown = _all_shown(run, found, as_output=as_output, with_tasks=with_tasks)
        return StateList(len(found), shown, run.event_count)

    async def fork(self, caller: Caller, fork: NewFork) -> RunRecord:
        """Creates a run of a hosted graph that goes on from a step of another, with a budget of its own.

        A repeat of a request returns its run. Raises RunNotFound, RolesLost, CheckpointNotFound, StateUnreadable,
        AgentGone, ForkRefused, InvalidRequest, RequestIdReused, ThreadBusy, RunQuotaExceeded.
        """
        run = await self._run(caller, fork.run_id)
        if found := await self._known(caller, run, fork):
            return found
        if not is_hosted(run):
            raise ForkRefused(f"{run.agent!r} is no hosted graph; `ForkThread` goes on from a checkpoint of its runs")
        await check_offered(self._pool, self._agents, run.agent)
        if run.agent in self._agents and (fork.update is not None or fork.as_node):
            # What only another pool has is checked where it is run.
            check_update(self._agents[run.agent].outline, fork.update, fork.as_node)
        if fork.in_thread and not run.thread_id:
            raise ForkRefused(f"run {run.run_id} is in no thread")
        source, _ = await self._found(run, fork.step, alone=True)
        changes = dict(fork.update) if fork.update is not None else None
        if has_nul(orjson.dumps(changes)):
            raise InvalidRequest("update: holds a NUL", violations=[FieldViolation("update", "can't hold a NUL")])
        forked_from = ForkedFrom(run.run_id, source.checkpoint["id"], fork.step, changes, fork.as_node, fork.only_state)
        new = continuing(run, caller, run.thread_id if fork.in_thread else None, fork.traceparent, fork.request_id)
        awaits_input = fork.input is not None
        # What is given, or is changed, takes the place of what the step waits for.
        waits = not awaits_input and not forked_from.changes
        version = version_to_go_on(self._agents, run, source, waits=waits)
        new = replace(new, graph_version=version, chunks_asked=fork.chunks_asked, callback_events=fork.callback_events)
        if fork.input is not None:
            new = self._with_input(new, fork.input)
        async with self._pool.connection() as connection, connection.transaction():
            if new.thread_id:
                await self._runs.enter_thread(connection, new)
            made = await continued(
                connection, self._runs, self._serde, new, source, forked_from, hosted=True, awaits_input=awaits_input
            )
        # The same request was faster.
        made = made or await self._known(caller, run, fork)
        if made is None:
            raise RunNotFound("the run of this request has been removed")
        return made

    async def _known(self, caller: Caller, run: RunRecord, fork: NewFork) -> RunRecord | None:
        found = await self._runs.of_request(caller, fork.request_id) if fork.request_id else None
        if found and not fork.fits(found, run):
            raise RequestIdReused(
                f"request id {fork.request_id!r} was used for another run; use a new one",
                metadata={"run_id": found.run_id},
            )
        return found

    def _with_input(self, new: NewRun, given: Mapping[str, Any]) -> NewRun:
        """Returns a run that begins with another input, checked by the graph's schemas where they are here."""
        asked = with_input(new.input, given)
        if agent := self._agents.get(new.agent):
            agent.definition.check_input(asked)
        return replace(new, input=asked.SerializeToString(), title=title_of(asked))

    async def _found(
        self, run: RunRecord, step: int | None, *, alone: bool = False
    ) -> tuple[CheckpointTuple, list[CheckpointSummary]]:
        config: Any = {"configurable": {"thread_id": run.run_id, "checkpoint_ns": ""}}
        only = {"step": step} if alone and step is not None else None
        wanted: CheckpointTuple | None = None
        steps: list[CheckpointSummary] = []
        with _read(run):
            async for each in self._history.select(
                config, metadata_filter=only, before=None, limit=1 if alone else MOST_STEPS
            ):
                summary = summary_of(each)
                steps.append(summary)
                if wanted is None and step in (None, summary.step):
                    wanted = each
        steps.reverse()
        if wanted is None:
            if alone and step is not None:
                return await self._found(run, step)  # which says what there is
            raise CheckpointNotFound(f"run {run.run_id} has {_there(steps)}; retention removes those of ended runs")
        return wanted, steps

    async def _run(self, caller: Caller, run_id: str) -> RunRecord:
        # What a run holds is not for operators either.
        run = await self._runs.get(run_id, replace(caller, roles=frozenset()))
        if not run.caller.roles <= caller.roles:
            raise RolesLost(f"run {run_id} was made with roles that this caller has lost", metadata={"run_id": run_id})
        return run


def _shown(found: CheckpointTuple, *, as_output: bool) -> Snapshot:
    return Snapshot(summary_of(found), json_values(kept_values(found))) if as_output else snapshot_of(found)


def _all_shown(run: RunRecord, found: Iterable[StepEnd], *, as_output: bool, with_tasks: bool) -> Iterator[Snapshot]:
    with _read(run):
        for each in found:
            shown = _shown(each.found, as_output=as_output)
            if with_tasks:
                ended = _tasks(run, each.before, each.writes_before) if each.before else ()
                shown = replace(shown, tasks=_tasks(run, each.found, each.writes), ended_tasks=ended)
            yield shown


def _tasks(run: RunRecord, found: CheckpointTuple, writes: Sequence[TaskWrites]) -> tuple[StepTask, ...]:
    """Returns the tasks that go on from a checkpoint; of the platform's own agents without what their nodes say."""
    tasks = tasks_of(found, writes, STEPS_CHANNEL)
    return tuple(tasks if is_hosted(run) else (replace(each, sent=(), writes=(), interrupts=()) for each in tasks))


@contextmanager
def _read(run: RunRecord) -> Iterator[None]:
    try:
        yield
    except (ormsgpack.MsgpackDecodeError, ValueError, TypeError, KeyError, ImportError, AttributeError) as error:
        raise StateUnreadable(
            f"the state of run {run.run_id} can't be read here: {type(error).__name__}: {error}"
        ) from error


def _there(steps: list[CheckpointSummary]) -> str:
    if not steps:
        return "no state of any step"
    numbers = [str(each.step) for each in steps]
    shown = ", ".join(numbers) if len(numbers) <= 10 else f"{numbers[0]} to {numbers[-1]}"
    return f"no such step; those whose state is there are {shown}"
