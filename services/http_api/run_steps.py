"""The steps of a hosted graph's run, as a reader is told of them: from the states that they have left.

`values` is the state after each step, `updates` what each task has changed of it, `checkpoints` that state with its
place, `tasks` each task when it begins and when it has ended, `debug` both with the time, and messages that came whole
are told with the step that brought them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api.assistants import Assistant
from services.http_api.errors import NotFound
from services.http_api.event_stream import Part
from services.http_api.gateway import Caller
from services.http_api.interrupts import INTERRUPT
from services.http_api.json_bodies import json_of, moment, value_of
from services.http_api.reader import LIFECYCLE, Position, Wanted
from services.http_api.run_request import CHECKPOINTS, CUSTOM, DEBUG, EVENTS, TASKS, UPDATES, VALUES
from services.http_api.tasks import CANCELLED, START, asked_by, authors, begun, ended, update_of
from services.http_api.told_messages import ToldMessages
from services.kit.wire.pages import pages

INPUT_STEP: Final = -1
# Of a run, as they are read.
STATES_AT_ONCE: Final = 100


class RunSteps:
    """The steps of a run, told to one reader from a position on."""

    def __init__(
        self,
        caller: Caller,
        run_id: str,
        thread_id: str,
        assistant: Assistant,
        wanted: Wanted,
        position: Position,
        messages: ToldMessages,
    ) -> None:
        self._caller = caller
        self._run_id = run_id
        self._thread_id = thread_id
        self._assistant = assistant
        self._wanted = wanted
        self._position = position
        self._messages = messages
        self._before: threads_pb2.ThreadState | None = None
        # The last event of whose step the state has been asked for.
        self._asked_until = 0

    @property
    def has_told(self) -> bool:
        """Whether the state of any step was there."""
        return self._before is not None

    @property
    def _tells_tasks(self) -> bool:
        return self._wanted.has(TASKS) or self._wanted.has(DEBUG)

    async def until(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        """Yields what there is to tell of steps that had ended with an event."""
        if set(self._wanted.modes) <= {CUSTOM, EVENTS, LIFECYCLE} or event.sequence <= self._asked_until:
            return
        async for part in self._of_new_states():
            yield part

    async def begin(self) -> AsyncIterator[Part]:
        """Yields what comes before all that the first tasks say: that they begin, of which no event tells.

        A thread's reader, who may not have created the run, hears what it was given.
        """
        is_told = self._tells_tasks or self._wanted.has(LIFECYCLE)
        if is_told and self._before is None and self._position.step <= INPUT_STEP:
            async for part in self._of_new_states():
                yield part

    async def go_on(self) -> AsyncIterator[Part]:
        """Yields the tasks that run once somebody has answered, and what those brought that had ended before."""
        if not self._position.is_anew:
            return
        state = await self._state(self._position.step) if self._tells_tasks or self._wanted.has(UPDATES) else None
        self._position.is_anew = False
        found: list[Part] = []
        if state is not None:
            found += self._begun(state)
            if self._wanted.has(UPDATES):
                told = (task for number, task in enumerate(state.tasks) if self._position.ended >> number & 1)
                found += [Part(UPDATES, {**update_of(task), "__metadata__": {"cached": True}}) for task in told]
        for part in self._position.group(found):
            yield part

    async def leave_open(self, asked: Sequence[dict[str, Any]] = (), problem: str = "") -> list[Part]:
        """Returns what the last step has brought though it comes to no end: it asks, or the run has ended in it."""
        if not self._tells_tasks and not self._wanted.has(UPDATES):
            return self._asking(asked, await self._values()) if asked and self._wanted.has(VALUES) else []
        # Meanwhile somebody may have answered: what is told is of the step that the reader is at.
        state = await self._state(None if self._position.step < INPUT_STEP else self._position.step)
        if state is None:
            return self._asking(asked, {}) if asked else []
        found = list(self._ended(state.tasks, state, problem=problem, is_open=True))
        open_ = {each["id"]: each for each in asked}
        asks = [(task, of_task) for task in state.tasks if (of_task := asked_by(task, open_))]
        for number, (task, of_task) in enumerate(asks, 1):
            values = json_of(state.values) if number == len(asks) else None
            found += self._asking(of_task, values, asked)
            found += self._task(ended(task, asked=of_task), state.checkpoint.step + 1, state)
        return found if asks or not asked else found + self._asking(asked, json_of(state.values))

    def _asking(
        self, of_task: Sequence[dict[str, Any]], values: Mapping[str, Any] | None, asked: Sequence[dict[str, Any]] = ()
    ) -> list[Part]:
        """Returns what a task asks; with the state, where that is given, and all that is asked."""
        found = [Part(UPDATES, {INTERRUPT: of_task})] if self._wanted.has(UPDATES) else []
        if self._wanted.has(VALUES) and values is not None:
            found.append(Part(VALUES, {**self._shown(values), INTERRUPT: asked or of_task}))
        return found

    async def _values(self) -> Mapping[str, Any]:
        """Returns the state as it is."""
        if self._before is None or self._before.checkpoint.step != self._position.step:
            self._before = await self._state()
        return json_of(self._before.values) if self._before is not None else {}

    async def _of_new_states(self) -> AsyncIterator[Part]:
        async for state in self._new_states():
            before, self._before = self._before, state
            # Whoever goes on behind one of these hears no more of this step: the last of them is all of it.
            parts = list(self._of_step(before, state))
            for part in parts[:-1]:
                yield part
            self._position.steps_on(state.checkpoint.step)
            for part in self._position.group(parts[-1:]):
                yield part

    def _of_step(self, before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState) -> Iterator[Part]:
        values, step = json_of(state.values), state.checkpoint.step
        changes, tasks = values, _tasks_between(before, state)
        if before is not None and any(node != START for node in before.next_nodes):
            changes = changed(json_of(before.values), values)
            yield from self._messages.in_step(step, changes, authors(tasks))
        self._messages.end(changes)
        yield from self._ended(tasks, state)
        if self._wanted.has(VALUES) and list(state.next_nodes) != [START]:
            yield Part(VALUES, self._shown(values))
        checkpoint = self._checkpoint(before, state)
        if self._wanted.has(CHECKPOINTS):
            yield Part(CHECKPOINTS, checkpoint)
        if self._wanted.has(DEBUG):
            yield _debug("checkpoint", checkpoint, step, state)
        yield from self._begun(state)

    def _begun(self, state: threads_pb2.ThreadState) -> Iterator[Part]:
        """Yields the tasks that run next from a state."""
        values = json_of(state.values) if self._tells_tasks else {}
        for task in state.tasks if self._tells_tasks else ():
            if task.name != START and not task.handles_failure:
                told = begun(task, values, self._assistant.reads(task.name))
                yield from self._task(told, state.checkpoint.step + 1, state)

    def _ended(
        self,
        tasks: Sequence[threads_pb2.Task],
        state: threads_pb2.ThreadState,
        *,
        problem: str = "",
        is_open: bool = False,
    ) -> Iterator[Part]:
        """Yields what tasks have brought that have ended and were not told so."""
        for number, task in enumerate(tasks):
            if task.name == START or not task.has_ended or self._position.ended >> number & 1:
                continue
            if task.error == CANCELLED:  # beside one that failed: LangGraph tells its beginning alone
                continue
            if is_open:
                self._position.ended |= 1 << number
            step = state.checkpoint.step + is_open
            if self._wanted.has(UPDATES) and not task.error:
                yield Part(UPDATES, update_of(task))
            if self._tells_tasks and not task.is_cached:
                yield from self._task(ended(task, problem), step, state)

    def _task(self, task: dict[str, Any], step: int, state: threads_pb2.ThreadState) -> Iterator[Part]:
        if self._wanted.has(TASKS):
            yield Part(TASKS, task)
        if self._wanted.has(DEBUG):
            yield _debug("task_result" if "result" in task else "task", task, step, state)

    async def _state(self, step: int | None = None) -> threads_pb2.ThreadState | None:
        """Returns the state after a step, by default the last; None where none is there."""
        request = threads_pb2.GetRunStateRequest(
            run_id=self._run_id, step=step, as_output=True, without_checkpoints=True, with_tasks=True
        )
        with suppress(NotFound):
            return (await self._caller.call(self._caller.stubs.threads.GetRunState, request)).state
        return None

    async def _new_states(self) -> AsyncIterator[threads_pb2.ThreadState]:
        """Yields the states of steps that the reader has not heard of, oldest first, as far as they are still there."""
        heard = self._position.step
        with_tasks = not set(self._wanted.modes) <= {VALUES, CUSTOM}
        request = threads_pb2.ListRunStatesRequest(run_id=self._run_id, as_output=True, with_tasks=with_tasks)
        # Whoever comes, or comes back, needs the state that they have heard, too, for what the next step changed.
        after = heard - 1 if self._before is None else heard
        if after >= INPUT_STEP:
            request.after_step = after
        call = partial(self._caller.call, self._caller.stubs.threads.ListRunStates)
        with suppress(NotFound):
            async for page in pages(call, request, "states", size=STATES_AT_ONCE):
                for state in page.states:
                    if state.checkpoint.step > heard:
                        yield state
                    else:
                        self._before = state
                if not page.next_page_token:
                    self._asked_until = page.last_sequence

    def _shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields that the graph gives back, as LangGraph streams them."""
        fields = self._assistant.output_fields
        return {name: value for name, value in values.items() if not fields or name in fields}

    def _checkpoint(self, before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState) -> dict[str, Any]:
        source = "input" if state.checkpoint.step < 0 else "loop"
        tasks = [task for task in state.tasks if not task.handles_failure]
        return {
            "config": self._config(state),
            "parent_config": self._config(before) if before else None,
            "values": json_of(state.values),
            "metadata": {"source": source, "step": state.checkpoint.step, "run_id": self._run_id},
            "next": [task.name for task in tasks] or list(state.next_nodes),
            "tasks": [{"id": task.task_id, "name": task.name, "interrupts": [], "state": None} for task in tasks],
        }

    def _config(self, state: threads_pb2.ThreadState) -> dict[str, Any]:
        place = f"{self._run_id}:{state.checkpoint.checkpoint_id}"
        return {"configurable": {"thread_id": self._thread_id, "checkpoint_ns": "", "checkpoint_id": place}}


def position_behind(state: threads_pb2.ThreadState) -> Position:
    """Returns where the stream begins of who answers what a run asks in a state."""
    ended = sum(1 << number for number, task in enumerate(state.tasks) if task.has_ended)
    return Position(step=state.checkpoint.step, ended=ended, is_anew=True)


def _tasks_between(
    before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState
) -> Sequence[threads_pb2.Task]:
    """Returns the tasks of the step that a state ends."""
    if state.ended_tasks or before is None or START in before.next_nodes or not before.next_nodes:
        return state.ended_tasks
    # A runtime of the release before tells no tasks: what they changed is told together.
    writes = changed(json_of(before.values), json_of(state.values))
    told = [threads_pb2.TaskWrite(field=field, value=value_of(value)) for field, value in writes.items()]
    return [threads_pb2.Task(name=",".join(before.next_nodes), writes=told, has_ended=True)]


def _debug(kind: str, payload: dict[str, Any], step: int, state: threads_pb2.ThreadState) -> Part:
    told = {"step": step, "timestamp": moment(state.checkpoint.create_time), "type": kind, "payload": payload}
    return Part(DEBUG, told)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is other in a state than before: of a list that was added to or changed in places, those items."""
    found = {}
    for name, value in after.items():
        if name in before and before[name] == value:
            continue
        found[name] = _new_items(before[name], value) if isinstance(before.get(name), list) else value
    return found


def _new_items(before: list[Any], after: Any) -> Any:
    if not isinstance(after, list) or len(after) < len(before):
        return after
    if after[: len(before)] == before:
        return after[len(before) :]
    ids: Set[str | None] = {_id_of(each) for each in before}
    if None in ids:
        return after
    return [each for each in after if each not in before]


def _id_of(item: Any) -> str | None:
    return item.get("id") if isinstance(item, dict) else None
