"""What models say while they say it: told to those who asked for it, and kept nowhere (docs/adr/0067-token-chunks.md).

Who makes a model call asks `wanted` before it: where nobody does, no model is asked to stream. Nodes that are no
coroutines speak from threads of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from services.kit.wire.event_kinds import TOKEN_CHUNK, TOKENS_RESET
from services.runtime.routing.storable import presentable

# As an event of its own, and in the payload of the event of a node's end.
CUSTOM_WRITES: Final = "custom_writes"
# As an event of its own, and in the payload of the next event that is kept.
CALLBACK_EVENTS: Final = "callback_events"
RERUN, WITHDRAWN, DROPPED = "rerun", "withdrawn", "dropped"
LONGEST_CHUNK = 2000
LONGEST_ID = 200
Tell = Callable[[str, dict[str, Any]], None]


class TokenChunks:
    """The chunks of a claimed run: `tell` takes a kind of event and its payload, in the loop that made this."""

    def __init__(self, wanted: Callable[[], bool], tell: Tell) -> None:
        self._wanted = wanted
        self._tell = tell
        self._loop = asyncio.get_running_loop()

    @property
    def wanted(self) -> bool:
        """Whether anybody asks for them now."""
        return self._wanted()

    def message(self, node: str, message_id: str, *, provisional: bool = False) -> StreamedMessage:
        """Begins a message of a node."""
        return StreamedMessage(self._send, node, presentable(message_id, LONGEST_ID), provisional=provisional)

    def write(self, part: dict[str, Any]) -> None:
        """Tells what a node wrote to LangGraph's stream writer."""
        self._send(CUSTOM_WRITES, part)

    def call(self, part: dict[str, Any]) -> None:
        """Tells what a callback of LangChain has told."""
        self._send(CALLBACK_EVENTS, part)

    def reset(self, node: str, cause: str) -> None:
        """Says that what a node has said so far no longer stands."""
        self._send(TOKENS_RESET, {"node": node, "cause": cause})

    def _send(self, kind: str, payload: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self._tell, kind, payload)


class StreamedMessage:
    """A message while its words come."""

    def __init__(self, send: Tell, node: str, message_id: str, *, provisional: bool) -> None:
        self._send = send
        self._told = {"node": node, "message_id": message_id, "provisional": provisional}
        self._offset = 0

    def say(self, text: str) -> None:
        """Tells what follows in it."""
        text = presentable(text, len(text))
        for start in range(0, len(text), LONGEST_CHUNK):
            part = text[start : start + LONGEST_CHUNK]
            self._send(TOKEN_CHUNK, {**self._told, "offset": self._offset, "text": part})
            self._offset += len(part)


_chunks: ContextVar[TokenChunks | None] = ContextVar("token_chunks", default=None)


def token_chunks() -> TokenChunks | None:
    """Returns where the run's models speak to; None outside of a claimed run."""
    return _chunks.get()


@contextmanager
def speaking_to(chunks: TokenChunks) -> Iterator[None]:
    """Has the models that are asked inside the context, also by tasks that are started in it, speak there."""
    token = _chunks.set(chunks)
    try:
        yield
    finally:
        _chunks.reset(token)
