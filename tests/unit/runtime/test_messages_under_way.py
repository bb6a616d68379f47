"""What is kept of messages while they are said, for those who come in their middle."""

from __future__ import annotations

from typing import Any

from services.kit.wire.event_kinds import TOKEN_CHUNK, TOKENS_RESET
from services.runtime.engine.events import MOST_UNDER_WAY, Event, EventStream

RUN = "run"


def chunk(text: str, offset: int = 0, *, message: str = "m", node: str = "agent") -> Event:
    said = {"node": node, "message_id": message, "offset": offset, "text": text, "provisional": False}
    return Event.unnumbered(RUN, TOKEN_CHUNK, said)


def heard(stream: EventStream) -> str:
    """Returns what is told to who asks elsewhere."""
    told: list[Event] = []
    stream.on_chunk = lambda _epoch, event: told.append(event)
    stream.asked_elsewhere(RUN)
    stream.on_chunk = lambda _epoch, _event: None
    return "".join((event.payload or {})["text"] for event in told)


def executing() -> EventStream:
    pool: Any = None
    stream = EventStream(pool)
    stream.begins(RUN)
    return stream


def test_what_a_claim_said_is_not_told_of_the_next() -> None:
    stream = executing()
    stream.tell(1, chunk("It was "))
    assert heard(stream) == "It was "
    # It was taken from this replica, and has come back.
    stream.begins(RUN)
    assert heard(stream) == ""
    stream.tell(2, chunk("It is"))
    assert heard(stream) == "It is"


def test_a_message_is_kept_until_it_no_longer_stands_or_is_too_long() -> None:
    stream = executing()
    stream.tell(1, chunk("inside", message="i", node="agent/inner"))
    stream.tell(1, chunk("beside", message="b", node="agents"))
    stream.tell(1, Event.unnumbered(RUN, TOKENS_RESET, {"node": "agent", "cause": "rerun"}))
    assert heard(stream) == "beside"
    for offset in range(0, MOST_UNDER_WAY + 1, 1000):
        stream.tell(1, chunk("x" * 1000, offset))
    assert heard(stream) == "beside"
    stream.leaves(RUN)
    assert heard(stream) == ""
