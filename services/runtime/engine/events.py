"""The events of runs: every one once, in order, from any replica, and always the last one."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.wire.event_kinds import RUN_ENDED, STATE_CHANGED
from services.runtime.engine.claim import StepWritten, step_rows
from services.runtime.engine.queries import query
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.errors import Draining, RunNotFound

PAGE = 500
QUEUE_LENGTH = 1000


@dataclass(frozen=True)
class Event:
    """Something that happened to a run; `payload` by kind, as in the tables `run_events` and `decisions`.

    `run` is the run after its last event, where the replica that wrote the event hands it over.
    """

    run_id: str
    sequence: int
    kind: str
    payload: dict[str, Any] | None
    decision: dict[str, Any] | None
    created_at: datetime
    run: RunRecord | None = None

    @property
    def is_last(self) -> bool:
        """True for the event after which a watcher has nothing to wait for: the end, or a question for a person."""
        return self.kind == RUN_ENDED or (
            self.kind == STATE_CHANGED and (self.payload or {}).get("state") == RunState.AWAITING_INPUT
        )

    def question(self, run: RunRecord) -> InputRequest | None:
        """Returns the question that this event asked; a run may have asked others since, or have ended."""
        asked = (self.payload or {}).get("input_request")
        if asked is None:
            return None
        if "question" in asked:
            return InputRequest.of(asked)
        now = run.input_request
        return now if now and now.input_request_id == asked["input_request_id"] else None


def events_of_step(run_id: str, agent: str, step: StepWritten) -> list[Event]:
    """Returns a committed step's events as a reader of the database would see them."""
    rows = step_rows(step.steps)
    decisions = {row["n"]: row for row in rows.decisions}
    made = []
    for row in rows.events:
        decision = decisions.get(row["decision"] or 0)
        if decision:
            decision = {
                **decision, "run_id": run_id, "agent": agent, "sequence": step.decision_base + decision["n"],
                "checkpoint_id": step.checkpoint_id, "decided_at": step.written_at.isoformat(),
            }  # fmt: skip
        sequence = step.event_base + row["n"]
        made.append(Event(run_id, sequence, row["kind"], row["payload"], decision, step.written_at))
    return made


class Watcher:
    """One who watches a run: the last event it has seen, and those that were handed to it since."""

    def __init__(self, seen: int, *, waits: bool = True) -> None:
        self.seen = seen
        self._events: deque[Event] = deque()
        self._behind = False
        self._news = asyncio.Event()
        if not waits:
            self.look()

    def push(self, event: Event) -> None:
        """Hands an event over; one that lags reads it from the database."""
        if len(self._events) < QUEUE_LENGTH:
            self._events.append(event)
            self._news.set()
        else:
            self.look()

    def look(self) -> None:
        """Has it read the database."""
        self._behind = True
        self._news.set()

    async def next(self) -> Event | None:
        """Returns the next event that was handed over, or None when it is time to read the database."""
        while not self._events and not self._behind:
            self._news.clear()
            await self._news.wait()
        if self._events:
            return self._events.popleft()
        self._behind = False
        return None


class EventStream:
    """Events as they happen: at once those of the runs that this replica executes, the others when it is told of them.

    Nobody asks the database on account of one watcher alone; see `watches.py`.
    """

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self._watchers: dict[str, set[Watcher]] = defaultdict(set)
        self._executing: set[str] = set()
        self._closed = False
        self._changes: set[str] = set()
        self.changed = asyncio.Event()

    def has_watchers(self, run_id: str) -> bool:
        """True when somebody on this replica watches the run."""
        return run_id in self._watchers

    def publish(self, events: Sequence[Event]) -> None:
        """Hands committed events to the watchers on this replica."""
        for event in events:
            for watcher in self._watchers.get(event.run_id, ()):
                watcher.push(event)

    def begins(self, run_id: str) -> None:
        """Notes that a run is executed here from now on: what happens to it will be published."""
        self._executing.add(run_id)
        self._hand_on(run_id)

    def leaves(self, run_id: str) -> None:
        """Notes that a run is no longer executed here."""
        self._executing.discard(run_id)
        self._hand_on(run_id)

    def look(self, run_ids: Iterable[str]) -> None:
        """Has the watchers of some runs read what is new."""
        for run_id in run_ids:
            for watcher in self._watchers.get(run_id, ()):
                watcher.look()

    def seen(self) -> Mapping[str, int]:
        """Returns the watched runs, and up to which event all who watch each have seen it."""
        return {run_id: min(watcher.seen for watcher in watchers) for run_id, watchers in self._watchers.items()}

    def changes(self) -> Mapping[str, bool]:
        """Returns the runs for which it has changed whether this replica must be told of them, and whether it must."""
        changes, self._changes = self._changes, set()
        self.changed.clear()
        return {run_id: run_id in self._watchers and run_id not in self._executing for run_id in changes}

    def all_changed(self) -> None:
        """Forgets what was said of changes: all that is watched is to be told of anew."""
        self._changes.update(self._watchers)
        self.changed.set()

    def close(self) -> None:
        """Ends every watch with Draining, for the watcher to go on at another replica."""
        self._closed = True
        for watcher in itertools.chain.from_iterable(self._watchers.values()):
            watcher.look()

    async def watch(self, run: RunRecord, after: int, *, fresh: bool = False) -> AsyncIterator[Event]:
        """Yields the events after a sequence number until the run ends or asks a question.

        `run` is as it was read for this watch. `fresh` says that it has just been created here, and nothing in the
        database can have been missed. Raises Draining, and RunNotFound when the run has been deleted meanwhile.
        """
        run_id = run.run_id
        # Nobody can have seen more than there was; who says so would wait for ever.
        after = min(after, run.event_count)
        if after == run.event_count and (run.state.ended or run.state is RunState.AWAITING_INPUT):
            return
        # What a run that goes on has asked so far is answered.
        answered = run.event_count if run.state in (RunState.PENDING, RunState.RUNNING) else 0
        watcher = Watcher(after, waits=not self._closed)
        self._watchers[run_id].add(watcher)
        self._note(run_id)
        try:
            last: Event | None = None
            found: list[Event] = []
            while True:
                if not fresh:
                    found = await self._read(run_id, watcher.seen)
                fresh = False
                for event in found:
                    watcher.seen, last = event.sequence, event
                    yield event
                if len(found) == PAGE:
                    continue
                if last and last.is_last and last.sequence > answered:
                    return
                async for event in self._pushed(watcher):
                    yield event
                    if event.is_last:
                        return
        finally:
            self._watchers[run_id].discard(watcher)
            if not self._watchers[run_id]:
                del self._watchers[run_id]
                self._note(run_id)

    async def _pushed(self, watcher: Watcher) -> AsyncIterator[Event]:
        """Yields events handed over in this process, until there is a gap or reason to read the database."""
        while event := await watcher.next():
            if event.sequence <= watcher.seen:
                continue
            if event.sequence != watcher.seen + 1:
                return
            watcher.seen = event.sequence
            yield event
        if self._closed:
            raise Draining("this replica is shutting down; watch the run again at another one")

    def _hand_on(self, run_id: str) -> None:
        if self.has_watchers(run_id):
            self.look([run_id])
            self._note(run_id)

    def _note(self, run_id: str) -> None:
        self._changes.add(run_id)
        self.changed.set()

    async def _read(self, run_id: str, after: int) -> list[Event]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("read_events"), {"run_id": run_id, "after": after, "limit": PAGE})
            rows = await cursor.fetchall()
        if not rows:
            raise RunNotFound(f"run {run_id} has been deleted", metadata={"run_id": run_id})
        return [Event(run_id=run_id, **row) for row in rows if row["sequence"] is not None]
