"""From a skill's answer to OpenAI's response objects, whole or as a stream of chunks."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.offline_model.conversation import Answer
from services.offline_model.tokens import count_prompt_tokens, count_tokens, cut_to_tokens
from services.offline_model.wire import ChatRequest

_PIECES = re.compile(r"\s*\S+(?:\s+$)?|\s+")


@dataclass(frozen=True)
class Completion:
    """A finished answer with its ids and usage."""

    model: str
    text: str
    tool_calls: list[dict[str, Any]]
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def usage(self) -> dict[str, int]:
        """OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def whole(self) -> dict[str, Any]:
        """The `chat.completion` object."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text if not self.tool_calls else None}
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": self.usage()}

    def events(self, *, include_usage: bool) -> Iterator[bytes]:
        """The server-sent events of a streamed answer, the closing `[DONE]` included."""
        for delta in self._deltas():
            yield self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])
        yield self._event([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": self.finish_reason}])
        if include_usage:
            yield self._event([], usage=self.usage())
        yield b"data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": "" if not self.tool_calls else None}
        if not self.tool_calls:
            for piece in _PIECES.findall(self.text):
                yield {"content": piece}
        for index, call in enumerate(self.tool_calls):
            function = call["function"]
            yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
            for piece in _PIECES.findall(function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {**self._envelope("chat.completion.chunk"), "choices": choices, **more}
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def complete(request: ChatRequest, answer: Answer) -> Completion:
    """Turns an answer into a completion: cut to the token limit, counted, with ids for its tool calls."""
    limit = request.token_limit
    text = answer.text if limit is None else cut_to_tokens(answer.text, limit)
    calls = [
        {
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()},
        }
        for call in answer.calls
    ]
    spent = sum(count_tokens(call.tool) + count_tokens(orjson.dumps(call.arguments).decode()) for call in answer.calls)
    finish_reason = "tool_calls" if calls else "length" if text != answer.text else "stop"
    return Completion(
        model=request.model,
        text=text,
        tool_calls=calls,
        finish_reason=finish_reason,
        prompt_tokens=count_prompt_tokens(request.messages, request.tools),
        completion_tokens=spent + count_tokens(text),
    )
