"""Who reads a run's stream: what is to be told to them, and how far they have heard."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from services.http_api.assistants import Assistant
from services.http_api.errors import Invalid
from services.http_api.event_stream import Part
from services.http_api.run_request import CUSTOM, EVENTS, MESSAGES, UPDATES, WHOLE_MESSAGES

CANCEL_ON_DISCONNECT: Final = "cancel_on_disconnect"
CANCELS: Final = f"{CANCEL_ON_DISCONNECT}=true"
# Messages under way that the id of an event speaks of, and attempts at nodes that have written, and claims that have
# told of callbacks.
MOST_UNDER_WAY: Final = 8
MOST_ATTEMPTS: Final = 32
# For streams of threads: what becomes of the run, and of what models have said, as the platform's own events.
LIFECYCLE: Final = "lifecycle"
# How far a reader has heard, and behind it, each with a mark, what more there is to say of it. Marks of a later
# release, as there may be in an upgrade, are passed over: what only they tell of is told once more.
_EVENT_ID: Final = re.compile(r"(\d{1,18})\.(-?\d{1,9})((?:[!-,/;-@\[-`{-~][0-9A-Za-z:.-]{1,64})*)", re.ASCII)
_COUNT: Final = re.compile(r"([+~])([0-9a-f]{8}):(\d{1,9})(?![0-9A-Za-z:.-])", re.ASCII)
_ENDED: Final = re.compile(r"=([0-9a-f]{1,64})(?![0-9A-Za-z:.-])", re.ASCII)
_ANEW: Final = re.compile(r"@1(?![0-9A-Za-z:.-])", re.ASCII)
# Tasks of a step that the id of an event speaks of; of more it is told once more that they have ended.
MOST_TASKS: Final = 1024
_TASKS_OF_MARK: Final = 256
_BEFORE_ALL: Final = -2


@dataclass
class Position:
    """How far a reader has heard: the platform's number of the last event, and the step of the last state.

    `said` has the characters that were told of messages under way, by a digest of their ids, the latest last, and
    `written` the writes of attempts at nodes, and events of claims. `ended` has a bit for each task behind the state
    that was told to have ended before its step; where `is_anew`, those tasks are still to be told to begin, since their
    run goes on.
    """

    sequence: int = 0
    step: int = _BEFORE_ALL
    said: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    is_anew: bool = False

    def steps_on(self, step: int) -> None:
        """Notes that all of a step is told."""
        self.step, self.ended, self.is_anew = step, 0, False
        self.said.clear()

    @property
    def id(self) -> str:
        """As the id of an event."""
        said = [f"+{digest}:{length}" for digest, length in list(self.said.items())[-MOST_UNDER_WAY:]]
        written = [f"~{digest}:{count}" for digest, count in list(self.written.items())[-MOST_ATTEMPTS:]]
        ended = [f"={part:x}" for part in _parts(self.ended)]
        anew = ["@1"] if self.is_anew else []
        return f"{self.sequence}.{self.step}{''.join(said + written + ended + anew)}"

    def part(self, event: str, data: Any) -> Part:
        """Returns an event behind which a reader goes on from here."""
        return Part(event, data, self.id)

    def group(self, parts: Sequence[Part]) -> list[Part]:
        """Returns what is told together. Only behind the last of it a reader goes on: it has then heard all."""
        return [*parts[:-1], *(self.part(last.event, last.data) for last in parts[-1:])]


def _parts(ended: int) -> list[int]:
    """Returns the bits of tasks as numbers that are short enough for a mark, as far as there are marks."""
    ended &= (1 << MOST_TASKS) - 1
    count = -(-ended.bit_length() // _TASKS_OF_MARK)
    return [ended >> number * _TASKS_OF_MARK & (1 << _TASKS_OF_MARK) - 1 for number in range(count)]


def heard(counts: Mapping[str, int], name: str) -> int:
    """Returns how much was told of a message under way, of an attempt at a node, or of a claim."""
    return counts.get(_digest(name), 0)


def hears(counts: dict[str, int], name: str, count: int) -> None:
    """Notes how much has been told."""
    digest = _digest(name)
    counts.pop(digest, None)
    counts[digest] = count


def _digest(name: str) -> str:
    return f"{zlib.crc32(name.encode()):08x}"


def position_of(last_event_id: str) -> Position:
    """Returns where a stream goes on. Raises Invalid for what is no id of this server's."""
    if last_event_id in ("", "-1", "0"):
        return Position()
    if not (found := _EVENT_ID.fullmatch(last_event_id)):
        raise Invalid("Last-Event-ID: is none of this server's; leave it out to hear all")
    position = Position(int(found[1]), int(found[2]))
    for mark, digest, count in _COUNT.findall(found[3]):
        (position.said if mark == "+" else position.written)[digest] = int(count)
    parts = _ENDED.findall(found[3])[: MOST_TASKS // _TASKS_OF_MARK]
    position.ended = sum(int(part, 16) << number * _TASKS_OF_MARK for number, part in enumerate(parts))
    position.is_anew = _ANEW.search(found[3]) is not None
    return position


@dataclass(frozen=True)
class Wanted:
    """What a stream is to tell: modes, and whether words and writes in graphs inside nodes are among them."""

    modes: Sequence[str]
    inside: bool = False

    def has(self, mode: str) -> bool:
        """Whether a mode is wanted."""
        return mode in self.modes

    def check_of(self, assistant: Assistant) -> None:
        """Raises Invalid for a mode that an agent does not have."""
        if self.has(EVENTS) and not assistant.is_hosted:
            raise Invalid(
                f"stream_mode: {EVENTS!r} is not offered of {assistant.name}, an agent of the platform's own, whose "
                f"calls are in the ledger; ask for {UPDATES} and {MESSAGES}"
            )

    @property
    def listens(self) -> bool:
        """Whether what is told before a step ends is wanted."""
        return not {MESSAGES, WHOLE_MESSAGES, CUSTOM, EVENTS}.isdisjoint(self.modes)

    def query(self, *, cancels: bool) -> str:
        """Returns it as a query, for who goes on with the stream elsewhere."""
        asked = [f"stream_mode={mode}" for mode in self.modes]
        asked += ["stream_subgraphs=true"] * self.inside + [CANCELS] * cancels
        return "&".join(asked)
