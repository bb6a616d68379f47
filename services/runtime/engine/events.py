"""The events of runs: every one once, in order, from any replica, and always the last one."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from services.kit.wire.event_kinds import RUN_ENDED, STATE_CHANGED, TOKEN_CHUNK, TOKENS_RESET
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, CUSTOM_WRITES, DROPPED, LONGEST_CHUNK, RERUN
from services.runtime.engine.claim import StepWritten, step_rows
from services.runtime.engine.queries import query
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.errors import Draining, RunNotFound

PAGE = 500
# Of events with what callbacks tell, each of which may have 2 MiB of it.
CALLED_PAGE = 8
QUEUE_LENGTH = 1000
# Characters in chunks that a watcher has not taken yet; a chunk takes some besides its own.
MOST_WAITING = 64_000
CHUNK_WEIGHT = 100
# Whoever is about to watch a run has begun by then, or is not going to.
PRESENTLY_S = 10.0
# Characters of messages under way that are kept of a run, weighed alike.
MOST_UNDER_WAY = 32_000
# Of what comes in parts, by the kind of its events: what it is known by, what a part is of, and what each has of it.
_PARTS: Mapping[str, tuple[str, str, str]] = {
    TOKEN_CHUNK: ("message_id", "node", "text"),
    CUSTOM_WRITES: ("attempt", "node", "writes"),
    CALLBACK_EVENTS: ("claim", "about", "data"),
}


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
        return self.kind == RUN_ENDED or self._enters(RunState.AWAITING_INPUT)

    @property
    def is_claim(self) -> bool:
        """True when a replica begins the run, or goes on with it: nodes that had not ended run again."""
        return self._enters(RunState.RUNNING)

    def _enters(self, state: RunState) -> bool:
        return self.kind == STATE_CHANGED and (self.payload or {}).get("state") == state

    @classmethod
    def unnumbered(cls, run_id: str, kind: str, payload: dict[str, Any]) -> Event:
        """Returns a chunk of what a model says, a node writes or callbacks tell, or what became of such."""
        return cls(run_id, 0, kind, payload, None, datetime.now(UTC))

    def with_next(self, following: Event) -> Event | None:
        """Returns the one chunk that two are, if they follow one another in one message."""
        if not self.is_chunk or self.kind != following.kind:
            return None
        if (self.whole, self.end) != (following.whole, following.start):
            return None
        if self.length + following.length > LONGEST_CHUNK:
            return None
        return self._with(self.start, self.content + following.content)

    @property
    def is_chunk(self) -> bool:
        """True for a part of what a model says, of what a node writes, or of what callbacks tell."""
        return self.kind in _PARTS

    @property
    def whole(self) -> tuple[str, str]:
        """Of what a chunk is a part: its id, and its node, or what its events have in common."""
        payload, (name, of, _) = self.payload or {}, _PARTS[self.kind]
        return payload[name], payload[of]

    @property
    def content(self) -> Any:
        """The text of a chunk, or its writes or events."""
        return (self.payload or {})[_PARTS[self.kind][2]]

    @property
    def start(self) -> int:
        """Characters of a message before a chunk, or writes."""
        return int((self.payload or {})["offset"])

    @property
    def end(self) -> int:
        """Characters of a message up to the end of a chunk, or writes."""
        return self.start + len(self.content)

    @property
    def length(self) -> int:
        """Characters of a chunk."""
        return len(self.content) if self.kind == TOKEN_CHUNK else sum(map(len, self.content))

    def behind(self, end: int) -> Event | None:
        """Returns what a chunk has of its message behind so many characters; None where that is nothing."""
        if (known := end - self.start) <= 0:
            return self
        return self._with(end, rest) if (rest := self.content[known:]) else None

    def halves(self) -> list[Event]:
        """Returns two chunks that a chunk is; none of what has one character, or one write."""
        half = len(self.content) // 2
        parts = [self._with(self.start, self.content[:half]), self._with(self.start + half, self.content[half:])]
        return parts if half else []

    def _with(self, start: int, content: Any) -> Event:
        return replace(self, payload={**(self.payload or {}), "offset": start, _PARTS[self.kind][2]: content})

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


class MessagesUnderWay:
    """What models of a claimed run are saying and its nodes write, from the beginning until the steps of the nodes end.

    What nodes write, and callbacks tell, is bounded where it comes from.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._messages: dict[str, list[Event]] = {}
        self._weight = 0

    def chunks(self) -> list[Event]:
        """Returns it as chunks, one message after the other."""
        return list(itertools.chain.from_iterable(self._messages.values()))

    def take(self, event: Event) -> None:
        """Takes a chunk, or that some no longer stand. A message that becomes too long is not kept."""
        if event.kind == TOKENS_RESET:
            self.forget((event.payload or {})["node"])
            return
        message_id, _ = event.whole
        if event.start == 0:
            self._messages[message_id] = []
        if (said := self._messages.get(message_id)) is None:
            return
        if said and (longer := said[-1].with_next(event)):
            self._weight += _kept_weight(longer) - _kept_weight(said[-1])
            said[-1] = longer
        else:
            said.append(event)
            self._weight += _kept_weight(event)
        if self._weight > MOST_UNDER_WAY and event.kind == TOKEN_CHUNK:
            del self._messages[message_id]
            self._weight = sum(map(_kept_weight, self.chunks()))

    def kept(self, claim: str, count: int) -> None:
        """Forgets so many of the events that callbacks have told in a claim: they are in an event that is kept."""
        left = (event.behind(count) for event in self._messages.get(claim, ()))
        if claim in self._messages:
            self._messages[claim] = [event for event in left if event]

    def forget(self, node: str) -> None:
        """Forgets what a node, with the graph inside it, has said; without a node, what any has."""
        for message_id, said in list(self._messages.items()):
            if not said or said[0].kind == CALLBACK_EVENTS:
                continue
            _, of = said[0].whole
            if not node or of == node or of.startswith(f"{node}/"):
                del self._messages[message_id]
        self._weight = sum(map(_kept_weight, self.chunks()))


class Watcher:
    """One who watches a run: the last event it has seen, and those that were handed to it since."""

    def __init__(self, seen: int, *, waits: bool = True, chunks: bool = False, callback_events: bool = False) -> None:
        self.seen = seen
        self.chunks = chunks
        self.hears_callbacks = callback_events
        self._waiting = 0
        self._drops = False
        # Of each message under way, how many characters were handed over; of attempts at nodes, how many writes.
        self._told: dict[str, int] = {}
        self._events: deque[Event] = deque()
        self._behind = False
        self._news = asyncio.Event()
        if not waits:
            self.look()

    @property
    def page(self) -> int:
        """How many events it reads at once."""
        return CALLED_PAGE if self.hears_callbacks else PAGE

    def push(self, event: Event) -> None:
        """Hands an event over; one that lags reads it from the database."""
        self._told.clear()
        if len(self._events) < QUEUE_LENGTH:
            self._events.append(event)
            self._news.set()
        else:
            self.look()

    def tell(self, chunk: Event) -> None:
        """Hands a chunk over if it wants any, once; of one that is slow they become longer, and then fewer."""
        if not self.chunks or (chunk.kind == CALLBACK_EVENTS and not self.hears_callbacks):
            return
        if chunk.is_chunk:
            if self._drops and self._waiting:
                return
            message_id, _ = chunk.whole
            # Some of it is told again where somebody else has come.
            if not (untold := chunk.behind(self._told.get(message_id, 0))):
                return
            chunk, self._told[message_id] = untold, chunk.end
            self._drops = self._waiting > MOST_WAITING
            if self._drops:
                chunk = reset_event(chunk.run_id, DROPPED)
        if chunk.kind == TOKENS_RESET:
            self._told.clear()
        if self._events and (longer := self._events[-1].with_next(chunk)):
            self._waiting -= _weight(self._events.pop())
            chunk = longer
        self._events.append(chunk)
        self._waiting += _weight(chunk)
        self._news.set()

    def look(self) -> None:
        """Has it read the database."""
        self._told.clear()
        self._behind = True
        self._news.set()

    def among(self, found: Sequence[Event]) -> Iterator[Event]:
        """Yields what the database has, and among it, where they stood, chunks that were handed over and not taken."""
        at = 0
        for event in tuple(self._events):  # more may be handed over while these are taken
            if not event.sequence:
                yield event
            while event.sequence and at < len(found) and found[at].sequence <= event.sequence:
                yield found[at]
                at += 1
        yield from found[at:]

    async def next(self) -> Event | None:
        """Returns the next event that was handed over, or None when it is time to read the database.

        That comes first: a chunk may follow an event that is still to be read.
        """
        while not self._events and not self._behind:
            self._news.clear()
            await self._news.wait()
        if self._behind:
            self._behind = False
            return None
        event = self._events.popleft()
        self._waiting -= _weight(event)
        return event


def reset_event(run_id: str, cause: str) -> Event:
    """Returns that the chunks of every node that has not ended no longer stand."""
    return Event.unnumbered(run_id, TOKENS_RESET, {"node": "", "cause": cause})


def _weight(event: Event) -> int:
    return CHUNK_WEIGHT + event.length if event.is_chunk else 0


def _kept_weight(event: Event) -> int:
    return _weight(event) if event.kind == TOKEN_CHUNK else 0


class Wanted(NamedTuple):
    """What of a run this replica is to be told by others: that it has news, and perhaps its chunks."""

    news: bool
    chunks: bool


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
        # Runs whose chunks somebody asks for at another replica, and those that a watch here is about to ask for.
        # The former with the number of the last who asked.
        self._asked_elsewhere: dict[str, int] = {}
        self.asks = 0
        self._asked_presently: dict[str, asyncio.TimerHandle] = {}
        # Of those, whose watch is registered already, which `watches` has not heard of.
        self._registered: set[str] = set()
        # Of runs that are executed here.
        self._under_way: dict[str, MessagesUnderWay] = {}
        self.on_chunk: Callable[[int, Event], None] = lambda _epoch, _chunk: None
        self.on_cancel: Callable[[str], None] = lambda _run_id: None

    def asked_presently(self, run_id: str, *, registered: bool = True) -> None:
        """Notes that whoever has a run begin or go on is about to watch it with its chunks, here or elsewhere.

        `registered`: what had it begin or go on has registered that for this replica.
        """
        if registered:
            self._registered.add(run_id)
        self._watched_or_not(run_id)
        expires = asyncio.get_running_loop().call_later(PRESENTLY_S, self._watched_or_not, run_id)
        self._asked_presently[run_id] = expires
        self._note(run_id)

    def _watched_or_not(self, run_id: str) -> None:
        """Notes that a run is watched now, or that nobody has come to watch it."""
        if expires := self._asked_presently.pop(run_id, None):
            expires.cancel()
            self._note(run_id)

    def asked_elsewhere(self, run_id: str) -> None:
        """Notes that somebody at another replica asks for a run's chunks, and tells them what is being said."""
        self.asks += 1
        self._asked_elsewhere[run_id] = self.asks
        if messages := self._under_way.get(run_id):
            for chunk in messages.chunks():
                self.on_chunk(messages.epoch, chunk)

    def unasked_elsewhere(self, run_ids: Iterable[str], asks: int) -> None:
        """Notes that nobody at another replica asked for the chunks of some runs, as of so many asks."""
        for run_id in run_ids:
            if self._asked_elsewhere.get(run_id, math.inf) <= asks:
                del self._asked_elsewhere[run_id]

    def wants_chunks(self, run_id: str) -> bool:
        """Whether anybody asks for a run's chunks."""
        asked = run_id in self._asked_elsewhere or run_id in self._asked_presently
        return asked or any(each.chunks for each in self._watchers.get(run_id, ()))

    def tell(self, epoch: int, chunk: Event) -> None:
        """Hands a chunk of a run that is executed here, by the claim of that epoch, to all who ask for it."""
        if chunk.run_id in self._executing:
            messages = self._under_way.get(chunk.run_id)
            if messages is not None and messages.epoch > epoch:
                return  # of a claim that was lost
            if messages is None or messages.epoch != epoch:
                messages = self._under_way[chunk.run_id] = MessagesUnderWay(epoch)
            messages.take(chunk)
        self.tell_here(chunk)
        if chunk.run_id in self._asked_elsewhere:
            self.on_chunk(epoch, chunk)

    def nodes_ended(self, run_id: str, nodes: Iterable[str]) -> None:
        """Notes that nodes of a run have ended, with what they said and wrote: nobody who comes later is told of it."""
        if messages := self._under_way.get(run_id):
            for node in nodes:
                messages.forget(node)

    def called_kept(self, run_id: str, parts: Iterable[Mapping[str, Any]]) -> None:
        """Notes that what callbacks have told is in an event that is kept, where who comes later reads it."""
        if messages := self._under_way.get(run_id):
            for part in parts:
                messages.kept(part["claim"], part["offset"] + len(part["data"]))

    def tell_here(self, chunk: Event) -> None:
        """Hands a chunk to the watchers on this replica."""
        for watcher in self._watchers.get(chunk.run_id, ()):
            watcher.tell(chunk)

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
        # Of an earlier claim, which was taken from this replica.
        self._under_way.pop(run_id, None)
        self._hand_on(run_id)

    def leaves(self, run_id: str) -> None:
        """Notes that a run is no longer executed here."""
        self._executing.discard(run_id)
        self._asked_elsewhere.pop(run_id, None)
        self._under_way.pop(run_id, None)
        self._hand_on(run_id)

    def look(self, run_ids: Iterable[str]) -> None:
        """Has the watchers of some runs read what is new."""
        for run_id in run_ids:
            for watcher in self._watchers.get(run_id, ()):
                watcher.look()

    def seen(self) -> Mapping[str, int]:
        """Returns the watched runs, and up to which event all who watch each have seen it."""
        return {run_id: min(watcher.seen for watcher in watchers) for run_id, watchers in self._watchers.items()}

    def changes(self) -> Mapping[str, Wanted]:
        """Returns the runs for which it has changed what this replica must be told of them, and what it must."""
        changes, self._changes = self._changes, set()
        self.changed.clear()
        return {run_id: self._wanted(run_id) for run_id in changes}

    def _wanted(self, run_id: str) -> Wanted:
        if run_id in self._executing:
            return Wanted(news=False, chunks=False)
        watchers, presently = self._watchers.get(run_id, ()), run_id in self._asked_presently
        return Wanted(bool(watchers) or presently, any(each.chunks for each in watchers) or presently)

    def registered(self) -> set[str]:
        """Returns the runs whose watch has been registered by others than `watches` since it last asked."""
        registered, self._registered = self._registered, set()
        return registered

    def all_changed(self) -> None:
        """Forgets what was said of changes: all that is watched is to be told of anew."""
        self._changes.update(self._watchers, self._asked_presently)
        self.changed.set()

    def close(self) -> None:
        """Ends every watch with Draining, for the watcher to go on at another replica."""
        self._closed = True
        for watcher in itertools.chain.from_iterable(self._watchers.values()):
            watcher.look()

    async def watch(
        self, run: RunRecord, after: int, *, fresh: bool = False, chunks: bool = False, callback_events: bool = False
    ) -> AsyncIterator[Event]:
        """Yields the events after a sequence number until the run ends or asks a question; with `chunks`, those too.

        With `callback_events` what callbacks tell is among the chunks.

        `run` is as it was read for this watch. `fresh` says that it has just been created here, and nothing in the
        database can have been missed. Raises Draining, and RunNotFound when the run has been deleted meanwhile.
        """
        run_id = run.run_id
        # Nobody can have seen more than there was; who says so would wait for ever.
        after = min(after, run.event_count)
        if after == run.event_count and (run.state.ended or run.state is RunState.AWAITING_INPUT):
            return
        new = Watcher(after, waits=not self._closed, chunks=chunks, callback_events=callback_events)
        with self._watching(run_id, new) as watcher:
            async for event in self._followed(run, watcher, fresh=fresh):
                yield event
                if chunks and event.is_claim:
                    yield reset_event(run_id, RERUN)

    @contextmanager
    def _watching(self, run_id: str, watcher: Watcher) -> Iterator[Watcher]:
        self._watchers[run_id].add(watcher)
        if watcher.chunks:
            self._watched_or_not(run_id)
        self._note(run_id)
        if messages := self._under_way.get(run_id):
            for chunk in messages.chunks():
                watcher.tell(chunk)
        try:
            yield watcher
        finally:
            self._watchers[run_id].discard(watcher)
            if not self._watchers[run_id]:
                del self._watchers[run_id]
            if watcher.chunks or run_id not in self._watchers:
                self._note(run_id)

    async def _followed(self, run: RunRecord, watcher: Watcher, *, fresh: bool) -> AsyncIterator[Event]:
        # What a run that goes on has asked so far is answered.
        answered = run.event_count if run.state in (RunState.PENDING, RunState.RUNNING) else 0
        last: Event | None = None
        found: list[Event] = []
        while True:
            if not fresh:
                found = await self._read(run.run_id, watcher)
            fresh = False
            is_over = found and found[-1].is_last and found[-1].sequence > answered
            # Nothing more is taken of what was handed over when all is over.
            for event in watcher.among(found) if is_over else found:
                if event.sequence:
                    watcher.seen, last = event.sequence, event
                yield event
            if len(found) == watcher.page:
                continue
            if last and last.is_last and last.sequence > answered:
                return
            async for event in self._pushed(watcher):
                yield event
                if event.is_last:
                    return

    async def _pushed(self, watcher: Watcher) -> AsyncIterator[Event]:
        """Yields events handed over in this process, until there is a gap or reason to read the database."""
        while event := await watcher.next():
            if not event.sequence:
                yield event
                continue
            if event.sequence <= watcher.seen:
                continue
            if event.sequence != watcher.seen + 1:
                return
            watcher.seen = event.sequence
            yield event
        if self._closed:
            raise Draining("this replica is shutting down; watch the run again at another one")

    def _hand_on(self, run_id: str) -> None:
        if self.has_watchers(run_id) or run_id in self._asked_presently:
            self.look([run_id])
            self._note(run_id)

    def _note(self, run_id: str) -> None:
        self._changes.add(run_id)
        self.changed.set()

    async def _read(self, run_id: str, watcher: Watcher) -> list[Event]:
        place = {"run_id": run_id, "after": watcher.seen, "limit": watcher.page}
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("read_events"), {**place, "hears_callbacks": watcher.hears_callbacks})
            rows = await cursor.fetchall()
        if not rows:
            raise RunNotFound(f"run {run_id} has been deleted", metadata={"run_id": run_id})
        return [Event(run_id=run_id, **row) for row in rows if row["sequence"] is not None]
