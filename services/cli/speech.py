"""What the models of a run say, put together from its chunks while they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbox.v1 import runs_pb2

from services.kit.text.printing import printable
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, TOKEN_CHUNK, TOKENS_RESET

GAP: Final = " … "
MOST_CHARACTERS: Final = 20_000


@dataclass
class _Message:
    node: str
    text: str = ""
    length: int = 0


class Speech:
    """The messages under way, each by its id; a node's are gone once its step has ended, or they no longer stand."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}

    @property
    def text(self) -> str:
        """What is being said: one message, or several below the names of their nodes."""
        said = [message for message in self._messages.values() if message.text]
        if len(said) == 1:
            return said[0].text
        return "\n".join(f"{message.node}: {message.text}" for message in said)

    def take(self, event: runs_pb2.RunEvent) -> str:
        """Takes an event; returns what it adds to a message, safe to print."""
        kind = event.WhichOneof("event")
        if kind == TOKEN_CHUNK:
            return self._add(event.token_chunk)
        if kind == TOKENS_RESET and event.tokens_reset.cause != runs_pb2.TOKENS_RESET_CAUSE_DROPPED:
            self._forget(event.tokens_reset.node)
        elif kind in (DECISION, NODE_COMPLETED):
            self._forget(event.decision.node or event.node_completed.node)
        return ""

    def _add(self, chunk: runs_pb2.TokenChunk) -> str:
        message = self._messages.setdefault(chunk.message_id, _Message(printable(chunk.node)))
        new = chunk.text[max(0, message.length - chunk.offset) :]  # who comes in the middle is told it once more
        added = (GAP if chunk.offset > message.length else "") + printable(new)
        message.length = max(message.length, chunk.offset + len(chunk.text))
        message.text = (message.text + added)[-MOST_CHARACTERS:]
        return added

    def _forget(self, node: str) -> None:
        inside = f"{node}/"
        for message_id, message in list(self._messages.items()):
            if not node or message.node == node or message.node.startswith(inside):
                del self._messages[message_id]
