"""The events of runs: every one once, in order, from any replica, and always the last one."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.claim import StepWritten, step_rows
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.errors import Draining, RunNotFound

PAGE = 500
QUEUE_LENGTH = 1000
# How often a watcher looks for events of a run that another replica executes.
POLL_FIRST_S = 0.05
POLL_MOST_S = 0.5


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
        return self.kind == "run_ended" or (
            self.kind == "state_changed" and (self.payload or {}).get("state") == "AWAITING_INPUT"
        )


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


class EventStream:
    """Events from the database, and at once those of the runs that this replica executes."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self._watchers: dict[str, set[asyncio.Queue[Event | None]]] = defaultdict(set)
        self._closed = False

    def has_watchers(self, run_id: str) -> bool:
        """True when somebody on this replica watches the run."""
        return run_id in self._watchers

    def publish(self, events: Sequence[Event]) -> None:
        """Hands committed events to the watchers on this replica; one that lags reads them from the database."""
        for event in events:
            for queue in self._watchers.get(event.run_id, ()):
                if not queue.full():
                    queue.put_nowait(event)

    def close(self) -> None:
        """Ends every watch with Draining, for the watcher to go on at another replica."""
        self._closed = True
        for queue in itertools.chain.from_iterable(self._watchers.values()):
            if not queue.full():
                queue.put_nowait(None)

    async def watch(self, run: RunRecord, after: int, *, fresh: bool = False) -> AsyncIterator[Event]:
        """Yields the events after a sequence number until the run ends or asks a question.

        `run` is as it was read for this watch. `fresh` says that it has just been created here, and nothing in the
        database can have been missed. Raises Draining, and RunNotFound when the run has been deleted meanwhile.
        """
        run_id = run.run_id
        # Nobody can have seen more than there was; who says so would wait for ever.
        after = min(after, run.event_count)
        if run.state.ended and after == run.event_count:
            return
        # What a run that goes on has asked so far is answered.
        answered = run.event_count if run.state in (RunState.PENDING, RunState.RUNNING) else 0
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE_LENGTH)
        self._watchers[run_id].add(queue)
        try:
            # The events of a run that begins here, claimed, are handed over.
            wait_s, last = POLL_MOST_S if fresh and run.state is RunState.RUNNING else POLL_FIRST_S, None
            while True:
                found = [] if fresh else await self._read(run_id, after)
                fresh = False
                for event in found:
                    after, last = event.sequence, event
                    yield event
                if len(found) == PAGE:
                    continue
                if last and last.is_last and last.sequence > answered:
                    return
                if found:
                    wait_s = POLL_FIRST_S
                async for event in self._pushed(queue, after, wait_s):
                    after = event.sequence
                    yield event
                    if event.is_last:
                        return
                wait_s = min(wait_s * 2, POLL_MOST_S)
        finally:
            self._watchers[run_id].discard(queue)
            if not self._watchers[run_id]:
                del self._watchers[run_id]

    async def _pushed(self, queue: asyncio.Queue[Event | None], after: int, wait_s: float) -> AsyncIterator[Event]:
        """Yields events handed over in this process, until there is a gap or none comes for a while."""
        while not self._closed:
            try:
                async with asyncio.timeout(wait_s):
                    event = await queue.get()
            except TimeoutError:
                return
            if event is None or event.sequence <= after:
                continue
            if event.sequence != after + 1:
                return
            after = event.sequence
            yield event
        raise Draining("this replica is going; watch on at another")

    async def _read(self, run_id: str, after: int) -> list[Event]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("read_events"), {"run_id": run_id, "after": after, "limit": PAGE})
            rows = await cursor.fetchall()
        if not rows:
            raise RunNotFound(f"run {run_id} has been deleted", metadata={"run_id": run_id})
        return [Event(run_id=run_id, **row) for row in rows if row["sequence"] is not None]
