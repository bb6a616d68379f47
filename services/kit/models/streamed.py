"""Answers of a model that come as a stream: told while they come, and put together to what they are as a whole.

Who wants to hear an answer says so around the call (`heard_by`); nobody else's call streams.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

# In an answer, that its endpoint did not say what it took: the counts are made from the texts.
ESTIMATED: Final = "signalbox_estimated"
STREAMED: Final[Mapping[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}
EVENT_STREAM: Final = "text/event-stream"
CHARACTERS_A_TOKEN: Final = 4
# Said at the beginning, or once.
_WHOLE: Final = ("id", "model", "system_fingerprint", "usage", "error")
_TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning")


class Hearer(Protocol):
    """Hears an answer while it comes."""

    def begin(self) -> None:
        """Hears that it is asked for, or asked for anew: what was said before is void."""

    def say(self, text: str) -> None:
        """Hears what follows in its text."""


class _Nobody:
    def begin(self) -> None:
        """Hears nothing."""

    def say(self, text: str) -> None:
        """Hears nothing."""


# For a stream that nobody asked for.
NOBODY: Final[Hearer] = _Nobody()
DONE: Final = b"[DONE]"
_hearer: ContextVar[Hearer | None] = ContextVar("hearer", default=None)


@dataclass
class UnfinishedCall:
    """What a call of a model may have taken by when it is broken off: nothing before a request is under way.

    `came` is what has come of the answer to that, in the API's form; `before` the usage of answers before it.
    """

    is_sent: bool = False
    came: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Any] = ()
    before: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> dict[str, int]:
        """The usage in the API's form: as far as the endpoint has told it, and else by an estimate."""
        given, made = self.before.get("prompt_tokens") or 0, self.before.get("completion_tokens") or 0
        if self.is_sent:
            choices = self.came.get("choices") or ()
            told = (self.came.get("usage") or {}).get("prompt_tokens")
            given += told or _tokens_of(self.messages)
            made += _tokens_of(choices[0]["message"]) if choices else 0
        return {"prompt_tokens": given, "completion_tokens": made}


_unfinished: ContextVar[UnfinishedCall | None] = ContextVar("unfinished_call", default=None)


@contextmanager
def heard_by(hearer: Hearer | None) -> Iterator[UnfinishedCall]:
    """Has answers that are asked for inside told while they come; yields what there is of an unfinished one."""
    unfinished = UnfinishedCall()
    tokens = _hearer.set(hearer), _unfinished.set(unfinished)
    try:
        yield unfinished
    finally:
        _hearer.reset(tokens[0])
        _unfinished.reset(tokens[1])


def unfinished_call() -> UnfinishedCall:
    """Returns where it is noted what becomes of the call that is made now."""
    return _unfinished.get() or UnfinishedCall()


def hearer() -> Hearer | None:
    """Returns who wants to hear an answer that is asked for now."""
    return _hearer.get()


class StreamTooLong(Exception):
    """A stream, a line of it, or what has come of it, is longer than any answer may be."""


class StreamedAnswer:
    """An answer in the API's form, put together from the chunks of a stream; of several choices the first."""

    def __init__(self, hearer: Hearer) -> None:
        self._hearer = hearer
        self._whole: dict[str, Any] = {}
        self._message: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        # Where the last call stands that came with a number.
        self._places: dict[int, int] = {}
        self._finish_reason: str | None = None
        self._has_choice = False
        self._is_done = False
        self._length = 0

    @property
    def answer(self) -> dict[str, Any]:
        """The answer so far."""
        if not self._has_choice:
            return dict(self._whole)
        texts: dict[str, Any] = {name: "".join(parts) for name, parts in self._message.items()}
        message = {"role": "assistant", "content": None, **texts}
        if self._calls:
            message["tool_calls"] = [call for _, call in sorted(self._calls.items())]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._whole, "choices": [choice]}

    @property
    def is_whole(self) -> bool:
        """Whether its end has come, or it is an error."""
        return self._finish_reason is not None or self._is_done or "error" in self._whole

    def end(self) -> None:
        """Hears that there is no more; some endpoints say nothing else of it."""
        self._is_done = True

    def take(self, chunk: Any, most: int) -> None:
        """Takes a chunk, as long as it is of so many characters at most. Raises StreamTooLong.

        Raises TypeError, AttributeError, KeyError or ValueError for what is not of the API's form.
        """
        self._whole |= {name: chunk[name] for name in _WHOLE if chunk.get(name) is not None}
        if chunk.get("object") == "error" or ("message" in chunk and "choices" not in chunk):
            self._whole.setdefault("error", chunk)
        for choice in (chunk.get("choices") or ())[:1]:
            self._has_choice = True
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice.get("delta") or choice.get("message") or {}
            for name in _TEXTS:
                if text := _text_of(delta.get(name)):
                    self._message.setdefault(name, []).append(text)
                    self._length += len(text)
                    if name == "content":
                        self._hearer.say(text)
            for number, part in enumerate(delta.get("tool_calls") or ()):
                self._take_call(number, part)
        if self._length > most:
            raise StreamTooLong("the model answered with too much")

    def _take_call(self, number: int, part: Mapping[str, Any]) -> None:
        function = part.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)  # whole, as Ollama's own API has them
        place = number if (index := part.get("index")) is None else int(index)
        place = self._places.get(place, place)
        call = self._calls.get(place)
        if call is not None and _is_another(call, part.get("id"), name):
            # Gemini and Ollama number all calls 0, or none.
            self._places[number if index is None else int(index)] = place = max(self._calls) + 1
            call = None
        if call is None:
            call = self._calls[place] = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call["id"] = call["id"] or part.get("id") or ""
        given = call["function"]
        given["name"] += name if name != given["name"] else ""  # some say it again with each part
        given["arguments"] += arguments or ""
        self._length += len(name) + len(arguments or "")


def _is_another(call: Mapping[str, Any], call_id: Any, name: str) -> bool:
    """Tells whether what comes with the number of a call begins another: with a name, and an id or after arguments."""
    is_known = bool(call_id) and call_id == call["id"]
    return bool(name) and not is_known and bool((call_id and call["id"]) or call["function"]["arguments"])


def _text_of(content: Any) -> str:
    """Returns a delta's text; some have it among parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


async def events_of(parts: AsyncIterator[bytes], *, most_bytes: int, most_line_bytes: int) -> AsyncIterator[bytes]:
    """Yields the data of server-sent events. Raises StreamTooLong."""
    size, begun = 0, list[bytes]()
    async for part in parts:
        size += len(part)
        if size > most_bytes or sum(map(len, begun)) > most_line_bytes:
            raise StreamTooLong("the model's stream does not end")
        if b"\n" not in part:
            begun.append(part)
            continue
        *lines, rest = b"".join([*begun, part]).split(b"\n")
        begun = [rest]
        for line in lines:
            if data := _data_of(line):
                yield data
    if data := _data_of(b"".join(begun)):
        yield data


def _data_of(line: bytes) -> bytes:
    return line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""


def estimate_usage(request: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Counts what an answer may have taken, whose endpoint does not say it."""
    given, made = _tokens_of(request["messages"]), _tokens_of(answer["choices"][0]["message"])
    answer["usage"] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    answer[ESTIMATED] = True


def _tokens_of(said: Any) -> int:
    return math.ceil(len(json.dumps(said, ensure_ascii=False, default=str)) / CHARACTERS_A_TOKEN)
