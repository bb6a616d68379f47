"""The steps of a hosted graph's run, as a reader is told of them: from the states that they have left.

`values` is the state after each step, `updates` what a step has changed of it, `checkpoints` that state with its place,
and messages that came whole are told with the step that brought them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from signalbox.v1 import runs_pb2, threads_pb2

from services.http_api.assistants import Assistant
from services.http_api.errors import NotFound
from services.http_api.event_stream import Part
from services.http_api.gateway import Caller
from services.http_api.json_bodies import json_of
from services.http_api.reader import Position, Wanted
from services.http_api.run_request import CHECKPOINTS, CUSTOM, UPDATES, VALUES
from services.http_api.told_messages import ToldMessages
from services.kit.wire.pages import pages

INPUT_STEP: Final = -1
# Of a run, as they are read.
STATES_AT_ONCE: Final = 100
_START: Final = "__start__"


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

    async def until(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        """Yields what there is to tell of steps that had ended with an event."""
        if set(self._wanted.modes) <= {CUSTOM} or event.sequence <= self._asked_until:
            return
        async for state in self._new_states():
            before, self._before = self._before, state
            # Whoever goes on behind one of these hears no more of this step: the last of them is all of it.
            parts = list(self._of_step(before, state))
            for part in parts[:-1]:
                yield part
            self._position.step = state.checkpoint.step
            self._position.said.clear()
            for part in self._position.group(parts[-1:]):
                yield part

    async def values_now(self) -> dict[str, Any]:
        """Returns the state as it is."""
        if self._before is None or self._before.checkpoint.step != self._position.step:
            request = threads_pb2.GetRunStateRequest(run_id=self._run_id, as_output=True, without_checkpoints=True)
            self._before = (await self._caller.call(self._caller.stubs.threads.GetRunState, request)).state
        return self._shown(json_of(self._before.values))

    def _of_step(self, before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState) -> list[Part]:
        values = json_of(state.values)
        nodes = [node for node in (before.next_nodes if before else ()) if node != _START]
        found: list[Part] = []
        changes = values
        if nodes and before is not None:
            changes = changed(json_of(before.values), values)
            by = ",".join(nodes)
            found += self._messages.in_step(by, state.checkpoint.step, changes)
            if self._wanted.has(UPDATES):
                found.append(Part(UPDATES, {by: changes or None}))
        self._messages.end(changes)
        if self._wanted.has(CHECKPOINTS):
            found.append(Part(CHECKPOINTS, self._checkpoint(before, state)))
        if self._wanted.has(VALUES) and list(state.next_nodes) != [_START]:
            found.append(Part(VALUES, self._shown(values)))
        return found

    async def _new_states(self) -> AsyncIterator[threads_pb2.ThreadState]:
        """Yields the states of steps that the reader has not heard of, oldest first, as far as they are still there."""
        heard = self._position.step
        request = threads_pb2.ListRunStatesRequest(run_id=self._run_id, as_output=True)
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
        following = list(state.next_nodes)
        source = "input" if state.checkpoint.step < 0 else "loop"
        return {
            "config": self._config(state),
            "parent_config": self._config(before) if before else None,
            "values": json_of(state.values),
            "metadata": {"source": source, "step": state.checkpoint.step, "run_id": self._run_id},
            "next": following,
            # Numbered as in the thread's history.
            "tasks": [
                {"id": f"{number}", "name": name, "interrupts": [], "state": None}
                for number, name in enumerate(following)
            ],
        }

    def _config(self, state: threads_pb2.ThreadState) -> dict[str, Any]:
        place = f"{self._run_id}:{state.checkpoint.checkpoint_id}"
        return {"configurable": {"thread_id": self._thread_id, "checkpoint_ns": "", "checkpoint_id": place}}


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
