"""Chunks for replicas whose callers watch a run that is executed here: sent together, a few times a second.

They go by Postgres's notifications, as news of runs do: past any pooler where they are listened for, and through it
where they are sent. A commit that notifies waits for every other that does, and a payload has less than 8,000 bytes.
"""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from services.kit.wire.event_kinds import TOKENS_RESET
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, DROPPED
from services.runtime.engine.background import attempt
from services.runtime.engine.database import Pools
from services.runtime.engine.events import Event, EventStream, reset_event
from services.runtime.engine.queries import query

INTERVAL_S = 0.1
MOST_BYTES = 7900
# Before a text that has what callbacks tell: a replica of the release before, which knows no such chunk, passes over
# it.
CALLED = "called:"
# A part of a write that is longer than a notification.
PIECE, PIECE_LENGTH = "piece", MOST_BYTES - 200
# Of one run's chunks in one batch, and of all runs'; what is beyond is left out, and that is said.
MOST_OF_RUN = 100
MOST_PAYLOADS = 100
# A run, and the epoch of the claim by which it is executed.
Key = tuple[str, int]


class ChunkPost:
    """Sends what `events` has for others."""

    def __init__(self, pools: Pools, events: EventStream) -> None:
        self._pool = pools.upkeep
        self._events = events
        self._waiting: dict[Key, list[Event]] = defaultdict(list)
        self._news = asyncio.Event()
        events.on_chunk = self._take

    def _take(self, epoch: int, chunk: Event) -> None:
        waiting = self._waiting[chunk.run_id, epoch]
        if waiting and (longer := waiting[-1].with_next(chunk)):
            waiting[-1] = longer
        elif len(waiting) < MOST_OF_RUN or chunk.kind == TOKENS_RESET:
            waiting.append(chunk)
        elif len(waiting) == MOST_OF_RUN:
            waiting.append(reset_event(chunk.run_id, DROPPED))
        self._news.set()

    async def send(self) -> None:
        """Sends what comes, until it is cancelled."""
        while True:
            await self._news.wait()
            await self.send_waiting()
            await asyncio.sleep(INTERVAL_S)

    async def send_waiting(self) -> None:
        """Sends what there is; of what can't be sent, it keeps what no longer stands, and that some is left out."""
        self._news.clear()
        waiting, self._waiting = self._waiting, defaultdict(list)
        unsent = set(waiting)
        await attempt("token_chunks", self._send(waiting, unsent))
        for key in unsent:
            void = {str(each.payload): each for each in waiting[key] if each.kind == TOKENS_RESET}
            left_out = reset_event(key[0], DROPPED)
            self._waiting[key][:0] = {**void, str(left_out.payload): left_out}.values()
            self._news.set()

    async def _send(self, waiting: dict[Key, list[Event]], unsent: set[Key]) -> None:
        letters = [(*key, payload) for key, chunks in waiting.items() for payload in payloads_of(key[0], chunks)]
        left_out = {(run_id, epoch) for run_id, epoch, _ in letters[MOST_PAYLOADS:]}
        run_ids, epochs, payloads = (list(column) for column in zip(*letters[:MOST_PAYLOADS], strict=True))
        parameters = {"run_ids": run_ids, "epochs": epochs, "payloads": payloads}
        asks = self._events.asks
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query("tell_chunks"), parameters)
            rows = await cursor.fetchall()
        # Of a run that is claimed anew, this says nothing.
        self._events.unasked_elsewhere({run_id for run_id, _, is_asked, _ in rows if not is_asked}, asks)
        untold = {(run_id, epoch) for run_id, epoch, is_asked, is_told in rows if is_asked and not is_told}
        unsent &= left_out | untold


def payloads_of(run_id: str, chunks: Sequence[Event]) -> Iterator[str]:
    """Yields texts that carry a run's chunks, each short enough for a notification."""
    told: list[bytes] = []
    size, prefix = 0, ""
    for chunk in chunks:
        for part in _parts(chunk):
            if told and size + len(part) > MOST_BYTES - 100:
                yield prefix + _payload(run_id, told)
                told, size, prefix = [], 0, ""
            told.append(part)
            size += len(part) + 1
            prefix = CALLED if chunk.kind == CALLBACK_EVENTS else prefix
    if told:
        yield prefix + _payload(run_id, told)


class PayloadReader:
    """Reads what `payloads_of` has made. Of a chunk in pieces, some of which are missing, it tells nothing."""

    def __init__(self) -> None:
        self._of = ""
        self._pieces: list[str] = []

    def chunks_of(self, payload: str) -> list[Event]:
        """Returns the chunks that a text carries, or ends."""
        told: dict[str, Any] = orjson.loads(payload.removeprefix(CALLED))
        run_id, found = told["run_id"], []
        for kind, part in told["chunks"]:
            whole = [kind, part] if kind != PIECE else self._put_together(run_id, *part)
            if whole:
                found.append(Event.unnumbered(run_id, *whole))
        return found

    def _put_together(self, run_id: str, number: int, count: int, piece: str) -> Any:
        if number == 0:
            self._of, self._pieces = run_id, []
        if (self._of, len(self._pieces)) != (run_id, number):
            return None
        self._pieces.append(piece)
        if number + 1 < count:
            return None
        written, self._pieces = "".join(self._pieces), []
        return orjson.loads(base64.b64decode(written))


def _payload(run_id: str, told: Sequence[bytes]) -> str:
    return (b'{"run_id":"%b","chunks":[%b]}' % (run_id.encode(), b",".join(told))).decode()


def _parts(chunk: Event) -> Iterator[bytes]:
    """Yields a chunk as JSON, in as many parts as it takes, or in pieces."""
    written = orjson.dumps([chunk.kind, chunk.payload])
    if len(written) <= MOST_BYTES - 100:
        yield written
        return
    if halves := chunk.halves():
        for half in halves:
            yield from _parts(half)
        return
    # In letters that JSON writes as they are.
    whole = base64.b64encode(written).decode()
    pieces = [whole[start : start + PIECE_LENGTH] for start in range(0, len(whole), PIECE_LENGTH)]
    for number, piece in enumerate(pieces):
        yield orjson.dumps([PIECE, [number, len(pieces), piece]])
