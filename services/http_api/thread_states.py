"""The states of a thread: of its runs, after their steps, newest first, as far as retention has left them.

A checkpoint's id names the run that it is of, too: so it is found at once, and what came later sorts behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Container, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api.assistants import assistant_id_of
from services.http_api.errors import Conflict, Invalid, NotAllowed, NotFound
from services.http_api.gateway import Caller
from services.http_api.interrupts import interrupts_of
from services.http_api.json_bodies import json_of, moment
from services.http_api.run_results import problem_of
from services.http_api.run_steps import STATES_AT_ONCE
from services.http_api.tasks import asked_by, error_of, result_of
from services.kit.wire.pages import pages

# As LangGraph's server has it: older clients ask for so many. What has been read by then is all, where it is large.
MOST_STATES: Final = 1000
MOST_BYTES: Final = 16 * 1024 * 1024
SEPARATOR: Final = ":"
# On a page of them.
FEWEST_RUNS: Final = 20
LEFT: Final = "retention removes those of ended runs but the last"
STATE_UNREADABLE: Final = "STATE_UNREADABLE"


@dataclass(frozen=True)
class Place:
    """A checkpoint of a run of a thread."""

    run_id: str
    checkpoint_id: str

    @property
    def id(self) -> str:
        """As callers name it."""
        return f"{self.run_id}{SEPARATOR}{self.checkpoint_id}"


def place_of(given: str) -> Place:
    """Returns the checkpoint that a caller names. Raises Invalid."""
    run_id, separator, checkpoint_id = given.partition(SEPARATOR)
    if not separator:
        raise Invalid(f"{given[:100]!r} is no checkpoint; a state's `checkpoint.checkpoint_id` is")
    # As the platform spells it.
    return Place(run_id.lower(), checkpoint_id)


@dataclass(frozen=True)
class _Left:
    """A run of a thread and what it has left: its last state, and its checkpoints, oldest first."""

    run: runs_pb2.Run
    last: threads_pb2.ThreadState
    checkpoints: Sequence[threads_pb2.Checkpoint]

    @property
    def last_place(self) -> Place:
        return Place(self.run.run_id, self.last.checkpoint.checkpoint_id)


class ThreadStates:
    """Reads the states of a caller's thread."""

    def __init__(self, caller: Caller, thread_id: str) -> None:
        self._caller = caller
        self._thread_id = thread_id
        self._read_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether a history has ended because of its size."""
        return self._read_bytes > MOST_BYTES

    async def runs(self) -> list[runs_pb2.Run]:
        """Returns the latest runs, newest first; none of a thread that has had none."""
        request = threads_pb2.GetThreadRequest(thread_id=self._thread_id)
        try:
            return list((await self._caller.call(self._caller.stubs.threads.GetThread, request)).runs)
        except NotFound:
            return []

    async def has_run(self, run_id: str, runs: Sequence[runs_pb2.Run], agent: str = "") -> bool:
        """Whether a run's states are of the thread, and of an agent where one is named; `runs` are the latest."""
        found = next((run for run in runs if run.run_id == run_id), None) or await self._run(run_id)
        return found is not None and agent in ("", found.agent) and not found.rolled_back_by

    async def _run(self, run_id: str) -> runs_pb2.Run | None:
        """Returns a run of the thread; None for what is none."""
        request = runs_pb2.GetRunRequest(run_id=run_id)
        try:
            found = (await self._caller.call(self._caller.stubs.runs.GetRun, request)).run
        except (NotFound, Invalid):
            return None
        # Operators see those of others, whose threads may have the same name.
        is_own = (found.thread_id, found.caller.subject) == (self._thread_id, self._caller.subject)
        return found if is_own else None

    async def _runs_from(
        self, run: runs_pb2.Run | None, *, agent: str = "", count: int = FEWEST_RUNS
    ) -> AsyncGenerator[runs_pb2.Run, None]:
        """Yields a run and those before it, newest first, all or an agent's, in pages of so many; without one, all."""
        request = runs_pb2.ListRunsRequest(thread_id=self._thread_id, subject=self._caller.subject, agent=agent)
        if run is not None:
            request.until_time.FromNanoseconds(run.create_time.ToNanoseconds() + 1000)
        call = partial(self._caller.call, self._caller.stubs.runs.ListRuns)
        is_after = run is not None
        async for page in pages(call, request, "runs", size=max(FEWEST_RUNS, count)):
            for each in page.runs:
                # Others may have been created in the same microsecond.
                is_after = is_after and run is not None and each.run_id != run.run_id
                if not is_after:
                    yield each

    async def head(self, runs: Sequence[runs_pb2.Run] | None = None) -> dict[str, Any]:
        """Returns the state that the next run begins with; one without values before the first step of all."""
        found = await self.history(1, runs=runs)
        return found[0] if found else self._empty()

    async def head_place(self, runs: Sequence[runs_pb2.Run]) -> Place | None:
        """Returns the checkpoint that the next run begins with."""
        for run in runs:
            if not run.rolled_back_by and (left := await self._left(run)) is not None:
                return left.last_place
        return None

    async def at(self, place: Place) -> dict[str, Any]:
        """Returns the state at a checkpoint. Raises NotFound."""
        run = await self._run(place.run_id)
        left = None if run is None or run.rolled_back_by else await self._left(run)
        for each, parent in _steps(left) if left else ():
            if left and each.checkpoint_id == place.checkpoint_id:
                found = self._document(left, await self._after(left, each.step), parent)
                found["parent_checkpoint"] = found["parent_checkpoint"] or await self._left_before(left.run)
                return found
        raise NotFound(f"thread {self._thread_id!r} has no checkpoint {place.id}; {LEFT}")

    async def step_of(self, place: Place) -> int:
        """Returns the step of a run that a checkpoint ends. Raises NotFound."""
        response = await self._state(place.run_id)
        for each in response.checkpoints:
            if each.checkpoint_id == place.checkpoint_id:
                return each.step
        raise NotFound(f"there is no checkpoint {place.id}; {LEFT}")

    async def history(
        self, limit: int, *, before: Place | None = None, runs: Sequence[runs_pb2.Run] | None = None
    ) -> list[dict[str, Any]]:
        """Returns states, newest first, or those before one; of all runs or of these.

        It asks as often as what it tells takes, however far back in the thread that is.
        """
        newest: runs_pb2.Run | None = None
        if before and (newest := await self._run(before.run_id)) is None:
            return []
        found: list[dict[str, Any]] = []
        orphans: dict[str, tuple[runs_pb2.Run, dict[str, Any]]] = {}
        async with aclosing(self._runs_from(newest, count=limit) if runs is None else _each(runs)) as newest_first:
            async for run in newest_first:
                if len(found) >= limit or self.is_full:
                    break
                if run.rolled_back_by or (left := await self._left(run)) is None:
                    continue
                if run.agent in orphans:
                    orphans.pop(run.agent)[1]["parent_checkpoint"] = self._checkpoint(left.last_place)
                async for document in self._documents(left, before, limit - len(found)):
                    found.append(document)
                    if document["parent_checkpoint"] is None:
                        orphans[run.agent] = run, document
        for run, orphan in orphans.values() if not self.is_full else ():
            orphan["parent_checkpoint"] = await self._left_before(run)
        return found

    async def _left_before(self, run: runs_pb2.Run) -> dict[str, Any] | None:
        """Returns the checkpoint that a run has begun on: the last of the agent's run before it."""
        # Nobody lists the runs of an agent that is not there any more.
        with suppress(Invalid):
            async for each in self._runs_from(run, agent=run.agent):
                if each.run_id == run.run_id or each.rolled_back_by:
                    continue
                if (left := await self._left(each)) is not None:
                    return self._checkpoint(left.last_place)
        return None

    async def _left(self, run: runs_pb2.Run) -> _Left | None:
        try:
            response = await self._state(run.run_id)
        except (NotFound, NotAllowed):  # it has not begun, retention was there, or the caller has lost a role of it
            return None
        except Conflict as error:
            if (
                error.told_reason == STATE_UNREADABLE
            ):  # it is another release's, or of a graph that is not there any more
                return None
            raise
        return _Left(run, response.state, response.checkpoints)

    async def _state(self, run_id: str, step: int | None = None) -> threads_pb2.GetRunStateResponse:
        request = threads_pb2.GetRunStateRequest(
            run_id=run_id, step=step, as_output=True, without_checkpoints=step is not None, with_tasks=True
        )
        return await self._caller.call(self._caller.stubs.threads.GetRunState, request)

    async def _after(self, left: _Left, step: int) -> threads_pb2.ThreadState:
        is_last = step == left.last.checkpoint.step
        return left.last if is_last else (await self._state(left.run.run_id, step)).state

    async def _documents(self, left: _Left, before: Place | None, limit: int) -> AsyncGenerator[dict[str, Any], None]:
        """Yields the states of a run, or those before one of it, newest first, so many at most."""
        parents = {each.checkpoint_id: parent for each, parent in itertools.islice(_steps(left, before), limit)}
        async with aclosing(self._newest_first(left, parents)) as states:
            async for state in states:
                yield self._document(left, state, parents[state.checkpoint.checkpoint_id])
                if self.is_full:
                    return

    async def _newest_first(self, left: _Left, wanted: Container[str]) -> AsyncGenerator[threads_pb2.ThreadState, None]:
        """Yields the states of a run at checkpoints, as far as retention has left them."""
        if left.last.checkpoint.checkpoint_id in wanted:
            yield left.last
        steps = [
            each.step
            for each in left.checkpoints
            if each.checkpoint_id in wanted and each.checkpoint_id != left.last.checkpoint.checkpoint_id
        ]
        if not steps:
            return
        request = threads_pb2.ListRunStatesRequest(
            run_id=left.run.run_id, before_step=steps[-1] + 1, newest_first=True, as_output=True, with_tasks=True
        )
        call = partial(self._caller.call, self._caller.stubs.threads.ListRunStates)
        async for page in pages(call, request, "states", limit=len(steps), size=STATES_AT_ONCE):
            for state in page.states:
                if state.checkpoint.checkpoint_id in wanted:
                    yield state

    def _document(self, left: _Left, state: threads_pb2.ThreadState, parent: Place | None) -> dict[str, Any]:
        checkpoint, run = state.checkpoint, left.run
        is_last = checkpoint.checkpoint_id == left.last.checkpoint.checkpoint_id
        self._read_bytes += state.ByteSize()
        asked = (interrupts_of(run.input_request) if run.HasField("input_request") else []) if is_last else None
        problem = problem_of(run) if is_last else None
        tasks = _tasks(state, asked, problem["message"] if problem else None)
        following = [task["name"] for task in tasks if not is_last or task["result"] is None or task["error"]]
        return {
            "values": json_of(state.values),
            "next": [name for name in following if name],
            "checkpoint": self._checkpoint(Place(run.run_id, checkpoint.checkpoint_id)),
            "metadata": {
                "run_id": run.run_id,
                "graph_id": run.agent,
                "assistant_id": assistant_id_of(run.agent),
                "step": checkpoint.step,
                **({"source": "input"} if checkpoint.step < 0 else {"source": "loop"}),
            },
            "created_at": moment(checkpoint.create_time),
            "parent_checkpoint": self._checkpoint(parent) if parent else None,
            "tasks": tasks,
            "interrupts": [each for task in tasks for each in task["interrupts"]],
        }

    def _checkpoint(self, place: Place) -> dict[str, Any]:
        return {
            "thread_id": self._thread_id,
            "checkpoint_ns": "",
            "checkpoint_id": place.id,
            "checkpoint_map": None,
        }

    def _empty(self) -> dict[str, Any]:
        return {
            "values": {},
            "next": [],
            "checkpoint": None,
            "metadata": None,
            "created_at": None,
            "parent_checkpoint": None,
            "tasks": [],
            "interrupts": [],
        }


async def _each(runs: Sequence[runs_pb2.Run]) -> AsyncGenerator[runs_pb2.Run, None]:
    for run in runs:
        yield run


def _steps(left: _Left, before: Place | None = None) -> Iterator[tuple[threads_pb2.Checkpoint, Place | None]]:
    """Yields the checkpoints of a run, or those before one of it, newest first, each with the one that it follows."""
    run, own = left.run, left.checkpoints
    if run.HasField("forked_from") and own and own[0].checkpoint_id == run.forked_from.checkpoint_id:
        own = own[1:]  # a copy of that of the run that it was made of
    if before is not None and before.run_id == run.run_id:
        own = [each for each in own if each.checkpoint_id < before.checkpoint_id]
    for number in range(len(own) - 1, -1, -1):
        yield own[number], Place(run.run_id, own[number - 1].checkpoint_id) if number else _made_of(run)


def _made_of(run: runs_pb2.Run) -> Place | None:
    made_of = run.forked_from
    return Place(made_of.run_id, made_of.checkpoint_id) if run.HasField("forked_from") else None


def _tasks(
    state: threads_pb2.ThreadState, asked: Sequence[dict[str, Any]] | None, failed: str | None
) -> list[dict[str, Any]]:
    """Returns what runs next from a state, and what it has brought; `asked` are all open interrupts of the last one."""
    open_ = None if asked is None else {each["id"]: each for each in asked}
    # A runtime of the release before names them only.
    named = [
        threads_pb2.Task(task_id=f"{number}", name=name) for number, name in enumerate(state.checkpoint.next_nodes)
    ]
    tasks = list(state.tasks) or named or ([threads_pb2.Task()] if asked or failed else [])
    told = [
        {
            "id": task.task_id,
            "name": task.name,
            "error": error_of(task, failed or ""),
            "interrupts": asked_by(task, open_),
            "checkpoint": None,
            "state": None,
            "result": result_of(task) if task.has_ended else None,
        }
        for task in tasks
    ]
    # What is of none of them is said of the last.
    if asked and not any(each["interrupts"] for each in told):
        told[-1]["interrupts"] = list(asked)
    if failed and not any(each["error"] for each in told):
        told[-1]["error"] = failed
    return told
