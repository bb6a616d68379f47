"""Events of LangChain's callbacks as a run's readers are told of them: each once, in the order in which they came."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import Any, Final

import orjson
from signalbox.v1 import runs_pb2

from services.http_api.event_stream import Part
from services.http_api.reader import Position, heard, hears
from services.http_api.run_request import EVENTS

# That some are left out.
LEFT_OUT: Final = "events/left_out"
# Bytes of what has come before something else that it follows.
MOST_HELD: Final = 4 * 1024 * 1024
_PART_OF_OUTPUT: Final = "_stream"
_REASON: Final = "CUSTOM_WRITE_LEFT_OUT_"


class ToldEvents:
    """What has been told of a run's callbacks, by the claims that told it."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._claim = ""
        self._held: list[runs_pb2.CallbackEvents] = []
        self._held_bytes = 0

    def of(self, event: runs_pb2.RunEvent) -> Iterator[Part]:
        """Yields what an event has of them that the reader has not heard.

        What comes as it happens waits for what is missing before it, which is in the next event with a number. What is
        missing there is in an event that the reader has asked to leave out.
        """
        counts = self._position.written
        for part in event.callback_events:
            if part.claim != self._claim:
                self._claim, self._held, self._held_bytes = part.claim, [], 0
            if event.sequence and part.offset > heard(counts, part.claim):
                hears(counts, part.claim, part.offset)
            if part.offset <= heard(counts, part.claim):
                yield from self._rest(part)
            elif self._held_bytes + part.ByteSize() <= MOST_HELD:
                self._held_bytes += part.ByteSize()
                insort(self._held, part, key=lambda each: each.offset)
        while self._held and self._held[0].offset <= heard(counts, self._claim):
            follows = self._held.pop(0)
            self._held_bytes -= follows.ByteSize()
            yield from self._rest(follows)

    def _rest(self, part: runs_pb2.CallbackEvents) -> Iterator[Part]:
        about = orjson.loads(part.about) if part.about else {}
        for count, data in enumerate(part.data, part.offset + 1):
            if count > heard(self._position.written, part.claim):
                hears(self._position.written, part.claim, count)
                yield self._position.part(*_told(about, data))


def _told(about: dict[str, Any], data: runs_pb2.CustomWrite) -> tuple[str, dict[str, Any]]:
    """Returns an event by its name; one without its data, which clients count on in parts of outputs alone."""
    if not data.left_out:
        return EVENTS, {**about, "data": orjson.loads(data.json)}
    reason = runs_pb2.CustomWriteLeftOut.Name(data.left_out).removeprefix(_REASON)
    if not about or about["event"].endswith(_PART_OF_OUTPUT):
        return LEFT_OUT, {**{name: about[name] for name in ("event", "run_id", "name") if about}, "reason": reason}
    return EVENTS, {**about, "data": {}, "left_out": reason}
