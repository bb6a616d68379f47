"""Messages of a run as its readers are told of them: word by word while models say them, or whole with their step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from signalbox.v1 import runs_pb2

from services.http_api.event_stream import Part
from services.http_api.reader import Position, Wanted, heard, hears
from services.http_api.run_request import MESSAGES, WHOLE_MESSAGES

_TYPES: Final = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})
_CHUNK: Final = "AIMessageChunk"


@dataclass
class _Said:
    """A message that came in chunks: of which node, how much of it, whether they still stand for it, and the last."""

    node: str
    length: int = 0
    stands: bool = True
    text: str = ""


@dataclass
class _Told:
    """What has been told of messages in chunks. One whose chunks stand no more is told whole when its step ends.

    Where `whole` is wanted, a message that is not known from its first word on is told then.
    """

    position: Position
    whole: bool = False
    said: dict[str, _Said] = field(default_factory=dict)

    def chunk(self, chunk: runs_pb2.TokenChunk) -> str:
        """Returns what of a chunk is new, or the message with it; nothing of one with gaps, taken back or over."""
        known = heard(self.position.said, chunk.message_id)
        if (said := self.said.get(chunk.message_id)) is None:
            said = self.said[chunk.message_id] = _Said(chunk.node, 0 if self.whole else known)
        told = said.length
        said.length = max(told, chunk.offset + len(chunk.text))
        said.stands = said.stands and chunk.offset <= told
        if not said.stands:
            return ""
        new = chunk.text[told - chunk.offset :]
        said.text += new
        if said.length <= known:
            return ""
        hears(self.position.said, chunk.message_id, said.length)
        return said.text if self.whole else new

    def ends(self, message_id: str) -> None:
        """Notes that a message is told whole: what comes of its chunks comes late."""
        self.said[message_id] = _Said("", stands=False)

    def reset(self, node: str) -> None:
        """Takes back what a node, with the graph inside it, has said; without a node, what any has."""
        for said in self.said.values():
            if not node or said.node == node or said.node.startswith(f"{node}/"):
                said.stands = False

    def rest(self, message: Mapping[str, Any]) -> str | None:
        """Returns what chunks have not told of a message that came whole; None where what they told does not stand.

        The last chunks may come behind it, or not at all.
        """
        said, content = self.said.get(message["id"]), message["content"]
        if said is None or not said.stands:
            return None
        goes_on = isinstance(content, str) and content[: said.length].endswith(said.text)
        return content[said.length :] if goes_on else ""


class ToldMessages:
    """What is told of a run's messages to one reader, in the form that they ask for."""

    def __init__(self, wanted: Wanted, position: Position, metadata: Mapping[str, Any]) -> None:
        """`metadata` is what is said of every message."""
        self._wanted = wanted
        self._position = position
        self._metadata = metadata
        # As on LangGraph's server, the words go before the whole where both are asked for.
        self._told = _Told(position, whole=not wanted.has(MESSAGES))

    def chunk(self, chunk: runs_pb2.TokenChunk) -> list[Part]:
        """Returns what is new of words."""
        if chunk.provisional:  # the words may be withdrawn, and what was sent can't be
            return []
        outer, _, inner = chunk.node.rpartition("/")
        is_begun = heard(self._position.said, chunk.message_id) > 0
        if not (text := self._told.chunk(chunk)):
            return []
        message = _words(chunk.message_id, text)
        return self._position.group(self._message(message, self._of_node(inner), outer, is_begun=is_begun))

    def reset(self, node: str) -> None:
        """Takes back what a node has said; without a node, what any has."""
        self._told.reset(node)

    def in_step(self, step: int, changes: Mapping[str, Any], node_of: Callable[[Mapping[str, Any]], str]) -> list[Part]:
        """Returns what is still to be told of messages that a step has brought, each by the node that it is of."""
        found: list[Part] = []
        for message in messages_in(changes):
            metadata = {**self._of_node(node_of(message)), "langgraph_step": step}
            rest = self._told.rest(message)
            if rest and self._wanted.has(MESSAGES):
                message = _words(message["id"], rest)
            if rest != "":
                found += self._message(message, metadata, is_begun=rest is not None)
        return found

    def end(self, changes: Mapping[str, Any]) -> None:
        """Notes that messages are told whole."""
        for message in messages_in(changes):
            self._told.ends(message["id"])

    def _of_node(self, node: str) -> dict[str, Any]:
        return {**self._metadata, "langgraph_node": node}

    def _message(
        self, message: dict[str, Any], metadata: dict[str, Any], outer: str = "", *, is_begun: bool = False
    ) -> list[Part]:
        """Returns a message, or what is known of it so far, in the form that is asked for."""
        if self._wanted.has(MESSAGES):
            return [Part(of_graph("messages", outer), [message, metadata])]
        if not self._wanted.has(WHOLE_MESSAGES):
            return []
        found = [] if is_begun else [Part("messages/metadata", {message["id"]: {"metadata": metadata}})]
        if message["type"] != _CHUNK:
            return [*found, Part("messages/complete", [message])]
        so_far = {name: value for name, value in message.items() if name != "tool_call_chunks"}
        return [*found, Part("messages/partial", [{**so_far, "type": "ai"}])]


def _words(message_id: str, text: str) -> dict[str, Any]:
    """Returns words of a message as the protocol has them."""
    return {
        "type": _CHUNK,
        "id": message_id,
        "content": text,
        "name": None,
        "additional_kwargs": {},
        "response_metadata": {},
        "tool_calls": [],
        "invalid_tool_calls": [],
        "tool_call_chunks": [],
    }


def of_graph(event: str, outer: str) -> str:
    """Returns the name of an event, which says of which graph inside a node it is."""
    return "|".join((event, *filter(None, outer.split("/"))))


def messages_in(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages that a step has brought, which have ids."""
    lists = (value if isinstance(value, list) else [value] for value in changes.values())
    return [
        each
        for items in lists
        for each in items
        if isinstance(each, dict)
        and each.get("type") in _TYPES
        and isinstance(each.get("id"), str)
        and "content" in each
    ]
