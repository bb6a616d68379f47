"""Messages of a run as streams of threads tell them: a start, blocks of content with what is new of them, and an end.

Words come in pieces whose ends depend on what was said before alone, so that every replica tells a message in the same
pieces, by the same ids, however it has heard of it: from its model, or whole with the state of its step.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

# A word with the space behind it, or a part of what has no spaces.
_PIECE: Final = re.compile(r"\S{0,15}\s|\S{16}")
ROLES: Final = ("ai", "human", "system")
_BLOCKS: Final = ("reasoning", "image", "audio", "video", "file", "server_tool_call", "server_tool_result")
_CALLS: Final = ("tool_use", "tool_call", "tool_call_chunk", "input_json_delta")


@dataclass(frozen=True)
class MessageEvent:
    """Something of a message: what it is, by an id among those of its run, and of which graph inside a node."""

    id: str
    namespace: Sequence[str]
    data: Mapping[str, Any]


@dataclass
class _Open:
    """A message that has begun: what is known of it, and how much of that has been told."""

    node: str
    namespace: Sequence[str]
    message_id: str
    text: str = ""
    told: int = 0
    digest: int = 0


class MessageEvents:
    """The messages of a run, as they are told to one reader."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def words(self, namespace: Sequence[str], node: str, message_id: str, text: str) -> Iterator[MessageEvent]:
        """Yields what is new of a message, as far as it makes whole pieces; the rest comes with those that follow."""
        if (message := self._open.get(message_id)) is None:
            message = self._open[message_id] = _Open(node, namespace, message_id)
            yield from _begun(message, "ai")
            yield _event(message, "0", {"event": "content-block-start", "index": 0, "content": _text("")})
        message.text += text
        yield from _pieces(message)

    def whole(self, namespace: Sequence[str], node: str, given: Mapping[str, Any]) -> Iterator[MessageEvent]:
        """Yields all that is to be told of a message that came whole."""
        role = str(given["type"])
        if role not in ROLES:
            return  # what a tool has said is told as its result
        if given["id"] not in self._open and text_of(given):
            message = self._open[given["id"]] = _Open(node, namespace, given["id"])
            yield from _begun(message, role)
            yield _event(message, "0", {"event": "content-block-start", "index": 0, "content": _text("")})
        elif given["id"] not in self._open:
            message = self._open[given["id"]] = _Open(node, namespace, given["id"])
            yield from _begun(message, role)
        yield from _ended(self._open.pop(given["id"]), given)

    def end(self, given: Mapping[str, Mapping[str, Any]], nodes: Set[str] | None) -> Iterator[MessageEvent]:
        """Yields the ends of messages: those of a state, by id, and all that nodes have begun; None is any node."""
        for message in list(self._open.values()):
            found = given.get(message.message_id)
            if found is not None or nodes is None or next(iter((*message.namespace, message.node))) in nodes:
                del self._open[message.message_id]
                yield from _ended(message, {"content": message.text} if found is None else found)

    def take_back(self, node: str) -> Iterator[MessageEvent]:
        """Yields that what a node, with the graph inside it, has said is void; without a node, what any has."""
        for message in list(self._open.values()):
            outermost = "/".join((*message.namespace, message.node))
            if not node or outermost == node or outermost.startswith(f"{node}/"):
                del self._open[message.message_id]
                words = {"event": "error", "message": "it was taken back: its node runs again"}
                yield _event(message, "void", words)

    def forget(self) -> None:
        """Leaves what has begun as it is: its node has paused, and runs again from its beginning."""
        self._open.clear()


def _begun(message: _Open, role: str) -> Iterator[MessageEvent]:
    data = {"event": "message-start", "role": role, "id": message.message_id}
    yield _event(message, "start", {**data, "metadata": {"langgraph_node": message.node}})


def _pieces(message: _Open) -> Iterator[MessageEvent]:
    for piece in _PIECE.finditer(message.text, message.told):
        yield _told(message, piece[0])


def _told(message: _Open, piece: str) -> MessageEvent:
    """Returns a piece, by an id that says what was told before it, too."""
    message.digest = zlib.crc32(piece.encode(errors="surrogatepass"), message.digest)
    at = f"{message.told:x}.{message.digest:08x}"
    message.told += len(piece)
    data = {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": piece}}
    return _event(message, at, data)


def _ended(message: _Open, given: Mapping[str, Any]) -> Iterator[MessageEvent]:
    text, number = text_of(given), 0
    if text.startswith(message.text):
        message.text = text
        yield from _pieces(message)
        if rest := text[message.told :]:
            yield _told(message, rest)
    if text or message.told:
        yield _event(message, "0end", {"event": "content-block-finish", "index": 0, "content": _text(text)})
        number = 1
    for block in _other_blocks(given):
        begun = {**block, "type": "tool_call_chunk", "args": ""} if block["type"] == "tool_call" else block
        yield _event(message, f"{number}", {"event": "content-block-start", "index": number, "content": begun})
        yield _event(message, f"{number}end", {"event": "content-block-finish", "index": number, "content": block})
        number += 1
    usage = given.get("usage_metadata")
    yield _event(message, "end", {"event": "message-finish", **({"usage": usage} if usage else {})})


def _event(message: _Open, at: str, data: Mapping[str, Any]) -> MessageEvent:
    # By `run_id` the clients tell messages apart that are under way at once.
    named = {**data, "message_id": message.message_id, "run_id": message.message_id}
    return MessageEvent(f"{digest_of(message.message_id)}.{at}", message.namespace, named)


def digest_of(name: str) -> str:
    """Returns a name in a form that an id may have in a stream."""
    return hashlib.blake2s(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def text_of(message: Mapping[str, Any]) -> str:
    """Returns the words of a message, whose content may come in blocks."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(
        each if isinstance(each, str) else str(each.get("text", ""))
        for each in blocks
        if isinstance(each, str) or (isinstance(each, dict) and each.get("type") == "text")
    )


def _other_blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict) or block.get("type") in ("text", *_CALLS):
            continue
        yield block if block.get("type") in _BLOCKS else {"type": "non_standard", "value": block}
    for call in calls_of(message):
        yield {"type": "tool_call", "id": call["id"], "name": call.get("name"), "args": call.get("args") or {}}


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the calls of tools that a message asks for."""
    calls = message.get("tool_calls")
    return [
        each
        for each in (calls if isinstance(calls, list) else ())
        if isinstance(each, dict) and isinstance(each.get("id"), str)
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
