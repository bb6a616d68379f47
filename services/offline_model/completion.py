"""From a skill's answer to OpenAI's response objects, whole or as a stream of chunks, with counts of tokens.

There is no tokenizer behind the skills, so a token is defined here: a run of up to six letters or digits, or one other
character that is not white space; a message costs four more for its frame. For English text and SQL that is close to
what byte-pair tokenizers count.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.kit.models.offline_rules import OFFLINE_RULES
from services.offline_model.conversation import Answer
from services.offline_model.wire import ChatRequest

FRAME_TOKENS = 4
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")
_PIECES = re.compile(r"\s*\S+(?:\s+$)?|\s+")


@dataclass(frozen=True)
class Completion:
    """A finished answer with its ids and usage."""

    model: str
    text: str
    tool_calls: list[dict[str, Any]]
    finish_reason: str
    usage: dict[str, int]
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self) -> dict[str, Any]:
        """The `chat.completion` object."""
        message: dict[str, Any] = {"role": "assistant", "content": None if self.tool_calls else self.text}
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": self.usage}

    def events(self, *, include_usage: bool) -> Iterator[bytes]:
        """The server-sent events of a streamed answer, the closing `[DONE]` included."""
        for delta in self._deltas():
            yield self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])
        yield self._event([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": self.finish_reason}])
        if include_usage:
            yield self._event([], usage=self.usage)
        yield b"data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None if self.tool_calls else ""}
        for piece in () if self.tool_calls else _PIECES.findall(self.text):
            yield {"content": piece}
        for index, call in enumerate(self.tool_calls):
            function = call["function"]
            yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
            for piece in _PIECES.findall(function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return (
            b"data: " + orjson.dumps({**self._envelope("chat.completion.chunk"), "choices": choices, **more}) + b"\n\n"
        )

    def _envelope(self, kind: str) -> dict[str, Any]:
        told = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**told, "system_fingerprint": OFFLINE_RULES}


def complete(request: ChatRequest, answer: Answer) -> Completion:
    """Turns an answer into a completion: cut to the token limit, counted, with ids for its tool calls."""
    text = cut_to_tokens(answer.text, request.token_limit)
    functions = [{"name": each.tool, "arguments": orjson.dumps(each.arguments).decode()} for each in answer.calls]
    calls = [{"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": each} for each in functions]
    asked, said = _asked_tokens(request), count_tokens(text + "".join(f" {each}" for each in functions))
    return Completion(
        model=request.model,
        text=text,
        tool_calls=calls,
        finish_reason="tool_calls" if calls else "length" if text != answer.text else "stop",
        usage={"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    )


def count_tokens(text: str) -> int:
    """Counts the tokens of a text."""
    return sum(1 for _ in _TOKEN.finditer(text))


def cut_to_tokens(text: str, limit: int | None) -> str:
    """Returns the beginning of a text that has at most so many tokens."""
    for index, token in enumerate(_TOKEN.finditer(text)):
        if index == limit:
            return text[: token.start()].rstrip()
    return text


def _asked_tokens(request: ChatRequest) -> int:
    """Counts what a request puts in front of the model: messages, tool calls and tool definitions."""
    texts = [message.text for message in request.messages]
    texts += [
        f"{call.function.name} {call.function.arguments}" for each in request.messages for call in each.tool_calls
    ]
    texts += [orjson.dumps(tool.model_dump()).decode() for tool in request.tools]
    return FRAME_TOKENS * len(request.messages) + sum(map(count_tokens, texts))
